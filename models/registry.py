"""The models that have a name: their names, needs and options, and how they are built.

Importing this module needs only the standard library; torch is imported when a model is built. The folder is copied
beside the profiled program, so everything here uses relative imports and runs on Python 3.8.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import options as known_options
from . import sizes
from .errors import UnknownModel
from .needs import MAMBA, PILLOW, TIMM, TORCH, Need, require

if TYPE_CHECKING:
    from .workload import Workload

_MODULES = {
    "vim": "networks.vim",
    "topk_deit": "networks.topk_deit",
    "gpt": "networks.gpt",
    "server": "networks.server",
    "mlp": "networks.mlp",
    "timm": "networks.timm_models",
    "user": "user_model",
}


@dataclass(frozen=True)
class Entry:
    """A model that can be profiled by name."""

    name: str
    family: str
    """``vim``, ``topk_deit``, ``gpt``, ``server``, ``mlp``, ``timm`` or ``user``."""
    title: str
    parameters: int | None
    """The number of parameters at the default sizes, by arithmetic; null if it is known only after building."""
    needs: tuple[Need, ...]
    """Packages needed besides torch, each with the command that installs it."""
    defaults: dict[str, Any]
    """The default value of each option that it accepts; null if the model itself decides."""
    cost: sizes.Cost | None = field(default=None, repr=False)
    """The work of an inference step at the defaults, by arithmetic; null if it is known only after building."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options that it accepts."""
        return tuple(self.defaults)

    def check(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns all options of a build with the defaults filled in, checked as far as possible without torch.

        Raises:
            WrongOption: an option that the model does not accept, or a wrong value.
        """
        return known_options.resolve(self.name, self.defaults, options)

    def build(self, options: dict[str, Any]) -> Workload:
        """Builds the model on its device, ready to run steps. Imports torch.

        Args:
            options: option to value; missing and null ones take the default.

        Raises:
            WrongOption: an option that the model does not accept, or a wrong value.
            MissingRequirement: a package that the model needs is not installed.
            UserModelError: the user's own module or factory failed.
            ModelError: the model can't be built here: no such device, no such folder of images, ….
        """
        chosen = self.check(options)
        require(TORCH, self.name)
        import torch

        from . import parallel
        from .tasks import Parts
        from .workload import Workload, check_device

        check_device(chosen["device"])
        if chosen["parallel"] is not None:
            chosen["device"], chosen["train"] = parallel.join(chosen["device"]), True
        torch.manual_seed(chosen["seed"])
        parts = importlib.import_module("." + _MODULES[self.family], __package__).build(self.name, chosen)
        if isinstance(parts, Parts):
            return Workload(self.name, self.family, chosen, parts)
        own: Workload = parts  # the user's factory made a workload
        return own


def entries() -> list[Entry]:
    """The built-in models; ``timm:NAME`` and ``MODULE:FACTORY`` are found by `find`."""
    return list(_BUILT_IN.values())


def find(name: str) -> Entry:
    """Returns the model with this name: a built-in one, ``timm:NAME``, or ``package.module:factory``.

    Raises:
        UnknownModel: there is no such model; the line lists similar names.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    kind, colon, rest = name.partition(":")
    if kind == "timm" and rest:
        return _timm(name)
    if colon and _is_dotted(kind) and _is_dotted(rest):
        return _user(name)
    by_lower = {known.lower(): known for known in _BUILT_IN}
    near = [by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, 3, 0.5)]
    like = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise UnknownModel(
        f"no model {name!r}{like}; `tracetui reference models` lists them, timm:NAME is one of timm's,"
        " MODULE:FACTORY your own"
    )


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _defaults(**own: Any) -> dict[str, Any]:
    return {**own, **known_options.COMMON_DEFAULTS}


def _vim(name: str, width: int) -> Entry:
    shape = sizes.VimShape(width, stride=8 if name.endswith("_s8") else 16)
    words = "224 px, patches of 16 that overlap by half" if name.endswith("_s8") else "224 px, patches of 16"
    return Entry(
        name,
        "vim",
        f"Vision Mamba, bidirectional, width {width}, 24 blocks, {words}",
        shape.parameters,
        (MAMBA, PILLOW),
        _defaults(batch=4, img_size=224, patch=16, depth=24, channels_last=False, data="random"),
        sizes.vim_cost(shape, 4),
    )


def _deit(name: str, size: tuple[int, int]) -> Entry:
    keep = 0.1
    shape = sizes.DeitShape(*size, keep=keep, reduction_loc=sizes.REDUCTION_LOC)
    return Entry(
        name,
        "topk_deit",
        f"DeiT, width {size[0]}, that keeps the share `keep` of its tokens in blocks 3, 6 and 9",
        shape.parameters,
        (PILLOW,),
        _defaults(
            batch=4,
            img_size=224,
            patch=16,
            depth=12,
            keep=keep,
            reduction_loc=sizes.REDUCTION_LOC,
            channels_last=False,
            data="random",
        ),
        sizes.deit_cost(shape, 4),
    )


def _gpt(name: str, size: tuple[int, int, int, int]) -> Entry:
    width, hidden, depth, heads = size
    shape = sizes.GptShape(width, hidden, depth, heads)
    return Entry(
        name,
        "gpt",
        f"GPT of CS336, width {width}, {depth} blocks, {heads} heads, vocabulary {shape.vocabulary:,}",
        shape.parameters,
        (),
        _defaults(batch=4, ctx=shape.ctx, depth=depth, attention="steps"),
        sizes.gpt_cost(shape, 4),
    )


def _server() -> Entry:
    width, hidden, depth, heads = sizes.GPT_SIZES["gpt_medium"]
    shape = sizes.GptShape(width, hidden, depth, heads)
    return Entry(
        "gpt_server",
        "server",
        f"gpt_medium that answers a batch of prompts in each step: prefill, then {sizes.ANSWER} times decode",
        shape.parameters,
        (),
        _defaults(batch=8, ctx=512, depth=depth, kv_cache="static"),
        sizes.server_cost(sizes.GptShape(width, hidden, depth, heads, ctx=512), 8),
    )


def _mlp() -> Entry:
    shape = sizes.MlpShape()
    return Entry(
        "mlp",
        "mlp",
        f"{shape.depth} linear layers of width {shape.width}, for a smoke test",
        shape.parameters,
        (),
        _defaults(batch=64, depth=shape.depth),
        sizes.mlp_cost(shape, 64),
    )


def _timm(name: str) -> Entry:
    return Entry(
        name,
        "timm",
        f"{name.partition(':')[2]} of timm, with random weights",
        None,
        (TIMM, PILLOW),
        _defaults(batch=4, img_size=None, depth=None, channels_last=False, data="random"),
    )


def _user(name: str) -> Entry:
    return Entry(
        name,
        "user",
        f"your own: {name}",
        None,
        (),
        _defaults(
            batch=4, img_size=None, patch=None, depth=None, ctx=None, keep=None, channels_last=False, data="random"
        ),
    )


_BUILT_IN = {
    entry.name: entry
    for entry in (
        *(_vim(name, width) for name, width in sizes.VIM_WIDTHS.items()),
        *(_deit(name, size) for name, size in sizes.DEIT_SIZES.items()),
        *(_gpt(name, size) for name, size in sizes.GPT_SIZES.items()),
        _server(),
        _mlp(),
    )
}
