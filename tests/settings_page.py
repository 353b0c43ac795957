"""docs/reference/settings.md from the schema of settings; `make docs` writes it."""

from tracetui.app.cli.commands.config import example, known_columns
from tracetui.app.settings import schema
from tracetui.app.settings.theme import THEMES

_HEAD = """# Settings

Made from `app/settings/schema.py` by `make docs`. `tracetui config` shows what is in force, where each of it comes
from, and what could not be used; `tracetui config --init` writes the file below, with all of it commented out.

| place | what it is |
|---|---|
| command line | `--theme light`, `--ascii`, `--no-ascii`, … |
| environment | `TRACETUI_THEME`, `TRACETUI_ASCII`, …: `1`, `0`, or a value; `NO_COLOR` |
| chosen on the screen | theme, names, columns and low bandwidth, as last chosen; kept in the user's data folder |
| project | `.tracetui.toml` beside the recording, in the working directory, or in a parent of either |
| yours | `config.toml` in the user's configuration folder: `tracetui config --path` says where |
| default | |

The first place that sets a value wins, setting by setting: for columns page by page, for keys action by action.
A choice made on the screen holds until the files that it overrides are edited; then the files hold again.
`tracetui config --reset` forgets it. A project's file can set everything that yours can; thresholds and silenced
findings ([rules.md](rules.md)) can stand in both: if both set a threshold, the project's holds.

`TRACETUI_CONFIG_DIR` and `TRACETUI_DATA_DIR` name other folders than the usual ones; with `TRACETUI_NO_STATE=1`, or
`--no-cache`, nothing is remembered.

A wrong key or value is reported in one line, on standard error or in the footer and under `N`; the rest of the file is
used.

## Keys of the file
"""


def settings_page() -> str:
    """Returns the text of `docs/reference/settings.md`."""
    lines = [_HEAD, "| key | allowed | default | |", "|---|---|---|---|"]
    for option in schema.SCHEMA:
        allowed = (
            " ".join(f"`{part.strip()}`" for part in option.allowed.split(","))
            if "," in option.allowed
            else option.allowed
        )
        default = {None: "", "": '`""`'}.get(option.default) if option.default in (None, "") else None
        if default is None:
            written = str(option.default).lower() if isinstance(option.default, bool) else f'"{option.default}"'
            default = f"`{written}`"
        lines.append(f"| `{option.key}` | {allowed} | {default} | {option.about} |")
    lines += [f"| `[{table}]` | a table | | {about} |" for table, about in schema.TABLES.items()]
    lines += ["| `[thresholds]`, `[silence]` | tables | | [rules.md](rules.md) |", ""]
    lines += ["## The file with everything in it", "", "```toml", example().rstrip(), "```", "", "## Themes", ""]
    lines += ["| theme | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {about} |" for name, about in THEMES.items()]
    lines += [
        "",
        "`ctrl+p` changes it while you look. With 16 colours or none, the first three give way to the terminal's own.",
        "",
        "## Keys",
        "",
        "`tracetui config --keys` lists the actions ([all of them](keys.md)). A key is a character (`f`, `/`, `G`), a",
        "name (`Esc`, `Enter`, `Tab`, `Space`, `PgDn`, `Home`, `F5`, `Up`), or with `ctrl+`, `shift+`, `alt+` before",
        "it, as far as a terminal tells it apart. A key that you give to an action is removed from the others in the",
        "same tabs, with a warning; if two actions ask for one key, the first gets it. Footer, `?` and palette show",
        "the keys in force.",
        "",
        "## Columns",
        "",
        "`show` adds a column and gives it priority if space is short; `hide` removes it. `c` does",
        "the same on the screen. Name a column by its name or its title; which columns exist depends on the",
        "recording.",
        "",
        "| page | columns; hidden ones in brackets |",
        "|---|---|",
    ]
    for page, columns in known_columns().items():
        names = ", ".join(f"({column.name})" if column.hidden else column.name for column in columns)
        lines.append(f"| `{page}` | {names} |")
    return "\n".join(lines) + "\n"
