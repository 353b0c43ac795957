"""Asks queries: opens the line for one, runs it in the background, and shows its result as a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tracetui.app.session import jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message_pump import MessagePump

    from tracetui.analysis.query.ask import Stop
    from tracetui.app.screen.history import Navigation
    from tracetui.app.screen.shell import Shell
    from tracetui.app.session.session import Session
    from tracetui.app.widgets.prompt import Question

_WORD = re.compile(r"(\w+\.)?(\w*)$")
_BEHIND = "on|using|where|join|inner|left|right|full|cross|natural|semi|anti|asof|group|order|having|limit|union"
"""Words that may follow a table's name and are no other name of it."""
_SOURCE = re.compile(rf"(?:\bfrom|\bjoin|,)\s+(\w+)(?:\s+(?:as\s+)?(?!(?:{_BEHIND})\b)(\w+))?")
_PARTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?:--[^\n]*|/\*.*?\*/|\s)+", re.DOTALL)


def frames_line() -> str:
    """The frames and tables that a query may name."""
    from tracetui.analysis.query.frames import ABOUT, frames

    tables = [name for name in frames() if name not in ABOUT]
    return f"frames: {' '.join(ABOUT)} · tables: {' '.join(tables)}"


def _named(text: str) -> dict[str, str]:
    """The tables that a query names, by what it calls them: ``{"k": "kernels"}`` of ``from kernels k``."""
    from tracetui.analysis.query.frames import frames

    sources, called = frames(), dict[str, str]()
    for name, alias in _SOURCE.findall(text.lower()):
        if name in sources:
            called[alias or name] = name
    return called


def hint(text: str) -> str:
    """What stands below a query while it is typed: how rows of its tables belong together; till then, all tables."""
    from tracetui.analysis.query.frames import joins

    named = _named(text)
    spelled = {name: alias for alias, name in named.items()}
    found = [
        re.sub(r"\w+(?=\.)", lambda side: spelled.get(side.group(), side.group()), join) for join in joins(spelled)
    ]
    return f"joins: {' · '.join(found)}" if found else frames_line()


def completed(before: str, behind: str = "") -> tuple[str, str]:
    """What follows the word at the end of a text, and the names that it may become.

    Args:
        before: the text before the cursor.
        behind: the text behind it, which may name the frames that the columns are of.

    Returns:
        The letters that all candidates share; the candidates in a line, which is empty where there is one or none, and
        of several tables says whose each column is. Behind ``on``, what rows of the tables have in common.
    """
    from tracetui.analysis.query.frames import ABOUT, frames

    sources = frames()
    match = _WORD.search(before)
    assert match is not None
    qualifier, word = (match.group(1) or "").removesuffix(".").lower(), match.group(2).lower()
    named = _named(f"{before[: match.start()]} {behind}")
    if qualifier in named:
        named = {qualifier: named[qualifier]}
    whose = [(column.name, alias) for alias, name in named.items() for column in sources[name].columns]
    if named and re.search(r"\bon\s+$", before, re.IGNORECASE):
        return "", hint(f"{before} {behind}")
    if not qualifier and (word or not named):
        whose += [(name, "") for name in sources]
    candidates = [each for each in dict.fromkeys(whose) if each[0].startswith(word)]
    if not candidates or not (word or qualifier or named):
        return "", frames_line()
    names = list(dict.fromkeys(name for name, _ in candidates))
    shared = 0
    while shared < min(map(len, names)) and len({name[shared] for name in names}) == 1:
        shared += 1
    more = names[0][len(word) : shared]
    if len(candidates) == 1:
        name, alias = candidates[0]
        return more, f"{name}: {sources[name].about}" if name in ABOUT and not alias else ""
    return more, " ".join(f"{alias}.{name}" if alias and len(named) > 1 else name for name, alias in candidates)


def one_line(sql: str) -> str:
    """A query of several lines as one, without its comments, which would hide the rest of the line."""

    def shorter(part: re.Match[str]) -> str:
        text = part.group()
        return text if text[0] in "'\"" else " "

    lines = sql.strip().splitlines()  # a terminal sends the ends of lines as it likes
    return _PARTS.sub(shorter, "\n".join(lines)).strip() if len(lines) > 1 else "".join(lines)


_QUERY = re.compile(r"\W*(select|with|explain|show|values|table|describe)\b|.*\bfrom\b", re.IGNORECASE)
"""How a query begins, or what one with a mistake still has."""
RUNS = "ask"
"""How the keys of the jobs begin."""
HINTS = (("Enter", "run"), ("Esc", "cancel"), ("Tab", "tables, columns"), ("Up", "earlier queries"))
RUNNING = "running: Esc stops it"
KEPT = 50
"""How many earlier queries the line brings back."""


class Queries:
    """Runs one query at a time."""

    def __init__(
        self,
        session: Session,
        shell: Shell,
        navigation: Navigation,
        target: MessagePump,
        look_up: Callable[[str], None],
    ) -> None:
        self._session, self._shell, self._navigation = session, shell, navigation
        self._look_up = look_up
        """Finds by name what is typed and is no query."""
        self._target = target
        """Receives the message when a query has ended, for `finish`."""
        self._history: list[str] = []
        self._question: Question | None = None
        self._running: tuple[str, str, Stop] | None = None
        """Key of its job, the query, what ends it."""
        self._number, self._hint = 0, ""
        self._early = False
        """Whether Enter was pressed before a recording was read."""

    def ask(self) -> None:
        """Opens the line; says below it what a query may name, or what is missing."""
        from tracetui.analysis.query.ask import NEEDS, is_there
        from tracetui.app.widgets.prompt import Question

        self._hint = frames_line()
        self._question = Question(
            "query",
            ":",
            self._submitted,
            cancelled=self.stop,
            hints=HINTS,
            history=tuple(self._history),
            changed=self._typed,
            completes=completed,
            below=self._shell.own(self._hint if is_there() else NEEDS),
            joins=one_line,
        )
        self._shell.ask(self._question)

    def _typed(self, text: str) -> None:
        """Says how the tables of what is typed belong together, once it names others than before."""
        said = hint(text)
        if said != self._hint:
            self._hint = said
            self._shell.explain(said)

    def _submitted(self, text: str) -> bool:
        """Starts a query; the line stays open until there is a result. An empty line closes, and what is no query."""
        from tracetui.analysis.query.ask import NEEDS, Stop, is_there

        sql = text.strip()
        if not sql or self._running is not None:
            return not sql and self._running is None
        if not _QUERY.match(sql):
            self._target.call_later(self._look_up, sql)
            return True
        run, self._early = self._session.runs.get("a"), False
        if not is_there():
            self._shell.explain(NEEDS)
        elif run is None:
            self._early = True
            self._shell.remark("runs when the recording is read")
        elif run.summaries_in is not None:
            self._shell.explain("Only summaries of this job's ranks are here, not their recordings")
        else:
            self._history = [*(earlier for earlier in self._history if earlier != sql), sql][-KEPT:]
            self._number += 1
            key, stop, session = f"{RUNS}#{self._number}", Stop(), self._session.frozen()
            self._running = key, sql, stop
            self._shell.remark(RUNNING)

            def work() -> object:
                from tracetui.app.views.query import query_page

                return query_page(session, sql, stop)

            jobs.start(self._target, key, work)
        return False

    def rows_came(self) -> None:
        """Runs the query that was typed before the recording was read."""
        prompt = self._shell.prompt
        if self._early and "a" in self._session.runs:
            self._early = False
            if prompt is not None and prompt.question is self._question:
                self._submitted(prompt.line.value)

    def finish(self, event: jobs.JobDone[Any]) -> None:
        """Shows a result, or says in the line why there is none; ignores other jobs, and a query that was stopped."""
        if self._running is None or event.key != self._running[0]:
            return
        from tracetui.analysis.query.ask import QueryError

        _, sql, _ = self._running
        self._running = None
        prompt = self._shell.prompt
        if prompt is None or prompt.question is not self._question:
            return  # the line was left for another tab
        if event.result is None:
            self._shell.remark("")
            self._shell.explain(str(event.error))
            if event.error is not None and not isinstance(event.error, QueryError):
                self._shell.log_error(event.error)
            return
        prompt.close()
        self._session.asked = sql
        self._navigation.show_result(event.result)

    def stop(self) -> None:
        """Ends the query that runs; its result is not shown."""
        self._early = False
        if self._running is not None:
            self._running[2].now()
            self._running = None
