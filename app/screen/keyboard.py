"""Gives each key to whom it belongs, and ends the program when one quits.

The rule: a key is looked at when everything that the key before it has started is over. Then the line or dialog that
the key before opened has the keys, whether keys come one by one or in one packet, and whether anything was painted.

Esc and the key after it may come in one packet, which is what Alt sends too: where Alt and that key mean nothing, they
are two keys.

While the view's rows are still to come, a key that opens a line opens it at once; what is typed goes on in the line of
the view when the rows are there. Other keys of the view wait for the rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from textual.command import CommandPalette
from textual.events import Event, InputEvent, Key, Paste
from textual.message import Message

from tracetui.app.keys import commands
from tracetui.app.keys.keymap import Command, shown_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from textual.app import App
    from textual.dom import DOMNode
    from textual.timer import Timer

    from tracetui.app.screen.shell import Shell
    from tracetui.app.widgets.prompt import Question

T = TypeVar("T")

LEAVING_SECONDS = 1.0
"""The program ends after this time even if parts are unfinished: a part that never answers must not keep it open."""


class Leaving:
    """Ends the program, once every part of the screen has finished its pending messages.

    Once `App.exit` is called, Textual puts up no more children: a view or dialog that is half there finds none of its
    parts, and each message that still waits fails in it. So the end waits until nothing is half there, a few
    milliseconds.
    """

    def __init__(self, app: App[None], before: Callable[[], None]) -> None:
        self._app, self._before = app, before  # the second is called once, while all views still exist
        self._end: Callable[[], None] | None = None
        self.asked = False
        """Whether the end was requested: nothing new starts, and nobody waits for work in progress."""
        self.done = False
        """Whether every part is finished, so that the program can end."""
        self._asked_last: frozenset[DOMNode] = frozenset()
        self._unanswered = 0

    def ask(self, end: Callable[[], None]) -> None:
        """Saves the state and ends the application in Textual's own way, `end`; a second call does nothing."""
        if self.asked:
            return
        self.asked, self._end = True, end
        self._app.call_later(self._ask_all)
        self._app.call_later(self._app.set_timer, LEAVING_SECONDS, self._leave)
        self._before()

    def uses_up(self, event: Event) -> bool:
        """Ends the program on a key that quits; returns whether an event is input for which nothing else is left.

        Textual looks up no key of the application while a dialog is open.
        """
        if isinstance(event, Key) and len(self._app.screen_stack) > 1 and commands.quits(event.key):
            self._app.exit()
        return self.asked and isinstance(event, (InputEvent, Paste))

    def _ask_all(self) -> None:
        """Asks every part to answer after its pending messages; a part answers once its children exist."""
        if self.done:
            return
        parts = {part for screen in self._app.screen_stack for part in screen.walk_children(with_self=True)}
        settled = parts == self._asked_last
        self._asked_last = frozenset(parts)
        if settled:
            self._leave()
            return
        self._unanswered = sum(part.call_later(self._answered) for part in parts)
        if not self._unanswered:
            self._leave()

    def _answered(self) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._app.call_later(self._ask_all)

    def _leave(self) -> None:
        """Ends the application now."""
        if not self.done and self._end is not None:
            self.done = True
            self._end()


class Gate(Generic[T]):
    """A queue whose next item comes out once everything that the one before started has ended.

    A key that opens a line or a dialog does so by messages between widgets; whoever gives the next key away before
    they have arrived gives it to the widget that had the keys before.
    """

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._tickets = 0
        self._out = 0

    @property
    def is_out(self) -> bool:
        """Returns whether an item was taken that is not done."""
        return self._out > 0

    @property
    def ticket(self) -> int:
        """Returns the ticket of the item that is out; 0 if none is."""
        return self._out

    @property
    def waits(self) -> bool:
        """Returns whether items wait."""
        return bool(self._waiting)

    def put(self, item: T) -> None:
        """Adds an item behind all others."""
        self._waiting.append(item)

    def put_first(self, items: Iterable[T]) -> None:
        """Adds items before all others, in the given order."""
        self._waiting.extendleft(reversed(list(items)))

    def take(self) -> tuple[int, T] | None:
        """Returns the next item with a ticket for `done`; None while another one is out, and if none waits."""
        if self._out or not self._waiting:
            return None
        self._tickets += 1
        self._out = self._tickets
        return self._out, self._waiting.popleft()

    def is_current(self, ticket: int) -> bool:
        """Returns whether the item with this ticket is the one that is out."""
        return ticket == self._out

    def give_up(self) -> None:
        """Lets the next item out, because nobody will say that the one before is done."""
        self._out = 0

    def done(self, ticket: int) -> None:
        """Lets the next item out; a ticket of an earlier item does nothing."""
        if ticket == self._out:
            self._out = 0


LONGEST_SECONDS, WAITS = 1.5, 2
"""The next key waits no longer, so many times: what a removed widget was to answer never comes."""
MOST_ROUNDS = 8
"""How often in a row a key may move the keys on to another widget before the next one is looked at."""
MOST_KEPT = 64
"""The most keys that wait for rows."""
SEARCH_SECONDS = 1.5
"""The longest wait for what the palette finds; what it finds at once it shows before (`palette.SHOWN_AFTER`)."""
ENTER, ESCAPE, TABS = "enter", "escape", ("tab", "shift+tab")
FILTER = "table.filter"
ALT = "alt+"
WORDS = {"alt+b": "ctrl+left", "alt+f": "ctrl+right"}
"""What some terminals send for Alt and an arrow, which moves by words in a line."""


@dataclass
class Passed(Message):
    """Follows a key up from widget to widget: all messages before it were handled."""

    ticket: int
    rounds: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._sender = None  # a message does not go further than the parent of its sender


@dataclass(frozen=True)
class Fill:
    """Puts a text into the open line in place of what is there."""

    text: str
    enters: bool = False
    """Whether Enter was pressed behind it."""


class Rows:
    """The rows of the view have come: what waited for them follows."""


Item: TypeAlias = "Key | Paste | Fill | Rows"


class Keyboard:
    """The keys of an application."""

    def __init__(
        self,
        app: App[None],
        shell: Shell,
        ending: Leaving,
        dispatch: Callable[[Event], Awaitable[None]],
        before_key: Callable[[], None],
    ) -> None:
        self._app, self._shell, self._ending = app, shell, ending
        self._before_key = before_key
        """Called with each key for the view, when everything that the key before it has started is over."""
        self._dispatch = dispatch
        """Textual's own way to handle a key."""
        self._gate: Gate[Item] = Gate()
        self._begun = False
        self._asked: DOMNode | None = None
        """Who was asked last to pass on that everything is handled."""
        self._late: Timer | None = None
        self._kept: list[Item] = []
        """What waits for the rows of the tab in view."""
        self._kept_in = ""
        """The tab in which these keys were pressed."""
        self._early: tuple[Question, Key] | None = None
        """What the line asks that was opened before the rows were there, and the key that opens it again."""
        self._after: list[Callable[[], object]] = []

    def after_typing(self, work: Callable[[], object]) -> None:
        """Does something that takes the keys of itself, as a dialog does: once no line is open and no key waits."""
        self._after.append(work)
        self._finish_typing()

    def _finish_typing(self) -> None:
        while self._after and self._shell.prompt is None and not self._gate.is_out and not self._gate.waits:
            self._after.pop(0)()

    def begin(self) -> None:
        """Looks at the first key, once the screen exists."""
        self._begun = True
        self._app.call_later(self._go_on)

    async def takes(self, event: Event) -> bool:
        """Queues a key or a paste; returns whether the event is one."""
        if not isinstance(event, (Key, Paste)) or event.is_forwarded:
            return False
        self._gate.put(event)
        if self._gate.is_out and self._late is None:
            self._wait(self._gate.ticket)
        await self._go_on()
        return True

    async def passed(self, event: Passed) -> None:
        """Goes on, once those who had the keys have handled everything."""
        if self._gate.is_current(event.ticket):
            self._follow(event.ticket, event.rounds)
            await self._go_on()

    def press(self, key: str) -> None:
        """Takes a key before all that wait, as for a command of the palette whose view has no rows yet."""
        self._gate.put_first([Key(key, None)])
        self._app.call_later(self._go_on)

    def rows_came(self) -> None:
        """Goes on with what waited for rows, if they are there."""
        self._finish_typing()
        if (self._kept or self._early) and not self._shell.awaits_rows:
            self._app.call_after_refresh(self._hand_on)  # a table knows its columns once it is laid out

    def _hand_on(self) -> None:
        self._gate.put_first([Rows()])
        self._app.call_later(self._go_on)

    # --- one after the other

    async def _go_on(self) -> None:
        while self._begun and (taken := self._gate.take()) is not None:
            ticket, item = taken
            self._asked = None
            if await self._gives(item):
                self._follow(ticket, MOST_ROUNDS)
            else:
                self._gate.done(ticket)
        self._finish_typing()

    def _follow(self, ticket: int, rounds: int) -> None:
        """Lets those who have the keys now handle everything that waits for them; the last time, it is done.

        The first round follows the key itself; another one is due as long as messages wait that came of it, or somebody
        else gets the keys.
        """
        due = self._shell.take_keys()
        target = self._target()
        due = due or target is not self._asked or any(part.message_queue_size for part in self._parts(target))
        if due and rounds and target.post_message(Passed(ticket, rounds - 1)):
            self._asked = target
            return
        self._gate.done(ticket)
        if self._late is not None:
            self._late.stop()
            self._late = None

    def _wait(self, ticket: int, times: int = WAITS) -> None:
        self._late = self._app.set_timer(LONGEST_SECONDS, lambda: self._too_late(ticket, times - 1))

    async def _too_late(self, ticket: int, times: int) -> None:
        """Goes on without an answer, but not if the screen had no time to handle anything meanwhile."""
        self._late = None
        if self._gate.is_current(ticket) and not times:
            self._gate.give_up()
            await self._go_on()
        elif self._gate.is_out:
            self._wait(self._gate.ticket, times if self._gate.is_current(ticket) else WAITS)

    def _parts(self, target: DOMNode) -> Iterable[DOMNode]:
        """Returns the widgets that may still have messages of a key: in a dialog, any of its lists too."""
        dialog = self._app.screen if len(self._app.screen_stack) > 1 else None
        return (*target.ancestors_with_self, *(dialog.walk_children() if dialog is not None else ()))

    def _target(self) -> DOMNode:
        """Returns the widget that gets the next key, or a part of the screen that has no widgets yet."""
        screen = self._app.screen
        if len(self._app.screen_stack) == 1:
            part = self._shell.prompt or self._shell.made(self._shell.tab)
            if part is not None and not part.is_mounted:
                return part
        return screen.focused or screen

    # --- to whom

    async def _gives(self, item: Item) -> bool:
        """Gives an item to whom it belongs; returns whether something may follow from it."""
        if isinstance(item, Rows):
            return self._give_kept()
        if isinstance(item, Fill):
            return await self._fill(item)
        if self._ending.uses_up(item):
            return False
        self._shell.take_keys()
        if isinstance(item, Key) and (parts := self._apart(item)):
            self._gate.put_first(parts)
            return False
        if isinstance(item, Paste):
            from textual.widgets import Input

            if not isinstance(self._app.focused, Input) and len(self._app.screen_stack) == 1:
                self._shell.say("What is pasted goes into a line, and none is open")
                return False
        elif len(self._app.screen_stack) > 1:
            if item.key == ENTER and isinstance(self._app.screen, CommandPalette):
                await self._searched()
        elif self._shell.prompt is not None:
            if item.key in TABS:  # the application's, but they would leave the line
                if item.key == TABS[0]:
                    self._shell.prompt.complete()
                return False
        elif (view := self._shell.view) is not None and view.uses_up(item.key):
            return True
        elif self._waits(item):
            return self._early is not None
        else:
            self._before_key()
        await self._dispatch(item)
        return True

    def _apart(self, key: Key) -> tuple[Key, ...]:
        """Returns the keys that came as Alt and a character; none if it is another key, or one that is bound."""
        if not key.key.startswith(ALT) or not key.is_printable or commands.is_bound(key.key):
            return ()
        from textual.widgets import Input

        from tracetui.app.terminal.keys import key_of

        if key.key in WORDS and isinstance(self._app.focused, Input):
            return (Key(WORDS[key.key], None),)
        return Key(ESCAPE, "\x1b"), key_of(str(key.character))

    async def _fill(self, item: Fill) -> bool:
        prompt = self._shell.prompt
        if prompt is None:  # the key opened none, because there is nothing to ask for
            return False
        prompt.fill(item.text)
        if item.enters:
            await prompt.line.action_submit()
        return True

    async def _searched(self) -> None:
        """Waits for what the palette finds, so that Enter does not choose what an earlier text had found."""
        tasks = [worker._task for worker in self._app.workers if worker.node is self._app.screen]
        if under_way := [task for task in tasks if task is not None and not task.done()]:
            await asyncio.wait(under_way, timeout=SEARCH_SECONDS)

    # --- before the rows are there

    def _waits(self, key: Key) -> bool:
        """Opens the line that a key opens, or keeps the key, if it needs rows that are still to come."""
        tab = self._shell.tab
        if tab != self._kept_in:
            self._kept.clear()
            self._kept_in = tab
        command = commands.meant(key.key, tab)
        if command is None or command.where == "app" or not (self._shell.awaits_rows or self._kept):
            return False
        if key.key == ESCAPE:
            forgets = bool(self._kept)
            self._kept.clear()
            self._shell.say("")
            return forgets
        if command.line:
            self._open_early(key, command)
        elif len(self._kept) < MOST_KEPT:
            self._kept.append(key)
            keys = " ".join(shown_key(item.key) for item in self._kept if isinstance(item, Key))
            self._shell.say(f"Waiting for the rows: {keys}")
        return True

    def _open_early(self, key: Key, command: Command) -> None:
        """Opens a line before the view can; what is typed follows when it can."""
        shared = command.id == FILTER and not self._shell.own_filter
        if shared and not self._kept:
            self._shell.ask_for_filter()
        else:
            from tracetui.app.widgets.prompt import Question

            def keep(text: str) -> bool:
                self._early = None
                self._kept += [key, Fill(text, enters=True)]
                return True

            value = self._shell.filter if shared else ""
            self._shell.ask(Question(command.id, command.line, keep, value, cancelled=self._forget_early))
        if (prompt := self._shell.prompt) is not None and prompt.question is not None:
            self._early = prompt.question, key

    def _forget_early(self) -> None:
        self._early = None

    def _give_kept(self) -> bool:
        """Hands on what waited, now that the view has its rows: its own line takes the place of an early one."""
        early, self._early = self._early, None
        prompt = self._shell.prompt
        if self._shell.awaits_rows or len(self._app.screen_stack) > 1:
            self._early = early
            return False
        kept, self._kept = (self._kept if self._kept_in == self._shell.tab else []), []
        if early is not None and prompt is not None and prompt.question is early[0]:
            question, key = early
            kept.append(key)
            if prompt.line.value != question.value:
                kept.append(Fill(prompt.line.value))
            prompt.close()
        if kept:
            self._shell.say("")  # no longer waiting
        self._gate.put_first(kept)
        return bool(kept)
