"""Damaged and odd files: every intact event is recovered, and what was skipped is counted."""

import gzip
import json
import os
import re
from dataclasses import replace

import polars as pl
import pytest
from sample_runs import recorded

from tracetui.parsers import TraceError, open_path
from tracetui.parsers.chrome import chunks, reader
from tracetui.parsers.chrome.reader import read_chrome

INTACT = {
    "Infinity_NaN.json": 33, "args_null.json": 33, "bad_utf8_in_name.json": 33, "begin_end_BE_events.json": 33,
    "bom.json": 33, "control_char_newline_in_name.json": 33, "duplicate_key.json": 33, "empty_events.json": 0,
    "event_without_name.json": 32, "gzip_two_members.json.gz": 33, "inf_bare.json": 33, "inf_quoted_string.json": 33,
    "invalid_backslash_escape.json": 33, "missing_cat.json": 33, "missing_dur.json": 33, "na_unquoted.json": 33,
    "negative_dur.json": 33, "not_gzip_named.json.gz": 33, "ok.json": 33, "only_metadata_events.json": 1,
    "overlapping_same_thread.json": 33, "stream_hex_string.json": 33, "tid_strings.json": 33, "top_level_list.json": 33,
    "trailing_comma.json": 33, "truncated_gzip.json.gz": 18, "truncated_mid_event.json": 21,
    "truncated_no_closing.json": 33, "ts_dur_strings.json": 33, "uint64_overflow_id.json": 33,
    "unescaped_quote_in_name.json": 32,
}  # fmt: skip
"""Intact events by file, as the recordings' own table has them."""


def test_the_table_is_that_of_the_recordings():
    assert sorted(path.name for path in recorded("broken").iterdir()) == sorted(INTACT)


def test_every_intact_event_is_recovered():
    for name in INTACT:
        trace = read_chrome(recorded(f"broken/{name}"))
        skipped = sum(note.count for note in trace.notes if note.kind == "skipped")
        assert trace.source.events_parsed >= INTACT[name], name
        assert trace.source.events_parsed + skipped == trace.source.events_total, name
        assert all(note.example for note in trace.notes if note.kind == "skipped"), name


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("bad_utf8_in_name.json", "repaired", "UTF-8"),
        ("inf_bare.json", "repaired", "JSON"),
        ("inf_quoted_string.json", "repaired", "blocks per SM"),
        ("missing_dur.json", "repaired", "duration"),
        ("negative_dur.json", "repaired", "negative"),
        ("overlapping_same_thread.json", "repaired", "outlived"),
        ("truncated_gzip.json.gz", "missing", "compressed stream"),
        ("truncated_mid_event.json", "skipped", "cut off"),
        ("truncated_no_closing.json", "missing", "closing bracket"),
        ("unescaped_quote_in_name.json", "skipped", "JSON"),
    ],
)
def test_what_was_wrong_is_said(name, kind, words):
    notes = read_chrome(recorded(f"broken/{name}")).notes
    assert any(note.kind == kind and words in note.reason for note in notes), notes


def test_an_undamaged_file_has_nothing_to_say():
    assert read_chrome(recorded("broken/ok.json")).notes == ()


def test_the_last_of_a_duplicate_key_wins():
    path = recorded("broken/duplicate_key.json")
    expected = {e["name"] for e in json.loads(path.read_text())["traceEvents"]}
    trace = read_chrome(path)
    names = set(trace.host["name"].cast(pl.String)) | set(trace.device["name"].cast(pl.String))
    assert names <= expected


@pytest.fixture(scope="module")
def intact():
    return json.loads(recorded("broken/ok.json").read_bytes())


WRITINGS = {"as it is": None, "minified": {"separators": (",", ":")}}
"""As it is, the file is indented by 1."""


def sort_of(character):
    """Digits are of one sort, as are letters and blanks; signs are each their own."""
    sorts = {"digit": character.isdigit(), "letter": character.isalpha(), "blank": character.isspace()}
    return next((sort for sort, holds in sorts.items() if holds), character)


def places(text, begin, *, by_key):
    """The first position of each kind behind `begin`, told by the grammar and by what stands there.

    By the grammar: in a string or not, behind a backslash, in a key, how deep; with `by_key` also behind which key.
    """
    found, depth, in_string, escaped, of_keys, key, word = {}, 0, False, False, False, "", ""
    for at, character in enumerate(text):
        if at > begin:
            inside = "text" if in_string else sort_of(character)
            found.setdefault((depth, inside, escaped, of_keys and in_string, key if by_key else ""), at)
        if in_string:
            in_string = escaped or character != '"'
            if not in_string and of_keys:
                key = word
            word += character
            escaped = character == "\\" and not escaped
        else:
            in_string, word = character == '"', ""
            depth += (character in "{[") - (character in "}]")
            of_keys = character in "{," or (of_keys and character != ":")
    return set(found.values())


_built = {}


@pytest.fixture
def frames_once(monkeypatch):
    """Builds the frames of the same events once: most cuts fall into an event and leave the ones before it as they are.

    What is linked is a function of the columns read, which are looked at byte for byte, and of what the header says;
    where in the file an event stands is of no consequence.
    """
    build = reader.build_trace

    def built(events, info, source, tally):
        columns = [
            (group, name, values.tobytes())
            for group, found in events.groups.items()
            for name, values in found.items()
            if name != "offset"
        ]
        key = (*columns, repr((events.metadata, events.header, events.window, info)))
        if key not in _built:
            _built[key] = build(events, info, source, tally)
        return replace(_built[key], source=source)

    monkeypatch.setattr(reader, "build_trace", built)


@pytest.mark.usefixtures("frames_once")
@pytest.mark.parametrize(("writing", "chunk"), [("as it is", None), ("minified", 1_500)])
def test_truncated_at_any_place(tmp_path, monkeypatch, intact, writing, chunk):
    if chunk:
        monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk)
    how = WRITINGS[writing]
    text = recorded("broken/ok.json").read_text() if how is None else json.dumps(intact, **how)
    begin = text.index("[", text.index('"traceEvents"')) + 1
    ends, at, decoder = [], begin, json.JSONDecoder()
    while text[(at := at + len(re.match(r"[\s,]*", text[at:]).group()))] != "]":
        _, at = decoder.raw_decode(text, at)
        ends.append(at)
    path = tmp_path / "cut.json"
    cuts = places(text, begin, by_key=not chunk)
    assert len(cuts) > 25
    for cut in sorted({*cuts, *ends, *(end - 1 for end in ends)}):
        path.write_text(text[:cut])
        trace = read_chrome(path)
        whole = sum(end <= cut for end in ends)
        assert trace.source.events_parsed == whole, cut
        assert trace.source.events_total - whole in (0, 1), cut


def test_gzip_cut_at_any_byte(tmp_path):
    raw = recorded("broken/ok.json").read_bytes()
    packed = gzip.compress(raw)
    path, before = tmp_path / "cut.json.gz", 0
    for cut in range(400, len(packed), 97):
        path.write_bytes(packed[:cut])
        parsed = read_chrome(path).source.events_parsed
        assert parsed >= before, cut
        before = parsed
    assert before > 25


def test_a_damaged_gzip_block_keeps_what_stands_before_it(tmp_path):
    name = "chrome/forms/torch213_cpu_mlp_modules.pt.trace.json.gz"
    packed = bytearray(recorded(name).read_bytes())
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(packed)
    trace = read_chrome(path)
    assert 1_000 < trace.source.events_parsed < 4_609
    assert any(note.kind == "missing" for note in trace.notes)


def test_garbage_between_events_costs_only_its_neighbour(tmp_path):
    text = recorded("broken/ok.json").read_text()
    middle = text.index('"ph"', len(text) // 2)
    path = tmp_path / "garbage.json"
    path.write_text(text[:middle] + "\x00\x01{{{ [[[" + text[middle:])
    trace = read_chrome(path)
    assert trace.source.events_parsed >= 31
    assert trace.source.events_total == 33


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.json", b"", "empty"),
        ("notes.txt", b"hello there", "not a trace"),
        ("other.json", b'{"a": 1}', "no traceEvents"),
        ("x.pftrace", b"\x0a\x10\x08", "Perfetto"),
        ("h.xplane.pb", b"\x0a\x10\x08", ".trace.json.gz"),
        ("r.ncu-repz", b"\x28\xb5\x2f\xfd", "Nsight Compute"),
        ("r.nsys-rep", b"NVTX", "Nsight Systems"),
        ("e.sqlite", b"SQLite format 3\x00" + bytes(100), "SQLite"),
        ("lfs.json.gz", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        ("cut.json.gz", b"\x1f\x8b\x08\x00", "damaged"),
    ],
)
def test_what_is_no_trace_gets_one_line(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        open_path(path)
    line = str(caught.value)
    assert words in line
    assert name in line
    assert "\n" not in line


@pytest.mark.parametrize("chunk", [None, 5_000])
@pytest.mark.parametrize("gap", [1, 3, 10])
def test_two_damaged_quotes_hide_nothing_between_them(tmp_path, monkeypatch, chunk, gap):
    """An even number of quotes, but strings and what separates them have changed places."""
    if chunk:
        monkeypatch.setattr(chunks, "CHUNK_BYTES", chunk)
    text = recorded("broken/ok.json").read_text()
    starts = [match.start() for match in re.finditer(r'"cat":', text)]
    first, second = starts[5], starts[5 + gap]
    path = tmp_path / "quotes.json"
    path.write_text(text[: first + 4] + "_" + text[first + 5 : second + 4] + "_" + text[second + 5 :])
    trace = read_chrome(path)
    assert trace.source.events_total == 33
    assert trace.source.events_parsed >= 30


def test_a_stray_bracket_does_not_end_the_list(tmp_path):
    text = recorded("broken/ok.json").read_text()
    end = [match.start() for match in re.finditer(r"\},\s*\{", text)][12]
    path = tmp_path / "bracket.json"
    path.write_text(text[: end + 1] + "]" + text[end + 1 :])
    assert read_chrome(path).source.events_parsed == 33


LAUNCHED = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"stream": 7}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ts", "9e999999"), ("dur", "9e999999"), ("pid", "1e99999999"), ("tid", '"stream 99999999999999999999"'),
        ("args", '{"stream": "1e99999999"}'), ("args", '{"bytes": 1e99999999}'), ("args", '{"grid": [NaN, 1, 1]}'),
        ("args", '{"grid": ["sNaN", 1, 1], "blocks per SM": "sNaN"}'), ("name", '"\\ud800 half"'),
        ("cat", '"user_annotation", "name": "ProfilerStep#\u00b2"'), ("tid", "[1]"), ("ph", "5"), ("ph", "null"),
        ("cat", '"user_annotation", "name": "ProfilerStep#99999999999999999999"'),
        ("args", "[" * 100_000 + "]" * 100_000),
    ],
)  # fmt: skip
def test_no_value_stops_the_reader(tmp_path, field, value):
    for phase in "XBC":
        strange = {**LAUNCHED, "ph": phase}
        members = ", ".join(f'"{key}": {value if key == field else json.dumps(old)}' for key, old in strange.items())
        path = tmp_path / "t.json"
        path.write_text(f'{{"traceEvents": [{json.dumps(LAUNCHED)}, {{{members}}}, {json.dumps(LAUNCHED)}]}}')
        trace = read_chrome(path)
        assert trace.source.events_total == 3, phase
        assert trace.source.events_parsed >= 2, phase
        assert trace.device.height >= 2, phase


@pytest.fixture(scope="module")
def deep():
    """An object that nests deeper than this Python's decoder goes."""
    for depth in (5_000, 30_000, 200_000):
        text = '{"a":' * depth + "1" + "}" * depth
        try:
            json.loads(text)
        except RecursionError:
            return text
    pytest.fail("no nesting is too deep for this decoder")


@pytest.mark.parametrize("place", ["before", "behind", "alone", "list"])
def test_nesting_deeper_than_the_decoder_goes(tmp_path, deep, place):
    events = f'"traceEvents": [{json.dumps(LAUNCHED)}]'
    text = {
        "before": f'{{"x": {deep}, {events}}}', "behind": f'{{{events}, "x": {deep}}}', "alone": deep,
        "list": "[" * 100_000,
    }[place]  # fmt: skip
    path = tmp_path / "deep.json"
    path.write_text(text)
    if place in ("alone", "list"):
        with pytest.raises(TraceError):
            open_path(path)
    else:
        assert open_path(path).traces[0].source.events_parsed == 1


def test_half_a_surrogate_pair_stays_as_it_is_spelled(tmp_path):
    half = "\ud800"
    names = {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": half}}
    counter = {"ph": "C", "name": half, "pid": 0, "ts": 1, "args": {half: 1}}
    path = tmp_path / "t.json"
    events = [LAUNCHED, {**LAUNCHED, "name": half}, names, counter]
    header = {"deviceProperties": [{"id": 0, "name": half}], "trace_id": half}
    path.write_text(json.dumps({**header, "traceEvents": events}))
    trace = read_chrome(path)
    spelled = r"\ud800"
    assert trace.device["name"].cast(pl.String).to_list() == ["k", spelled]
    assert trace.info.processes == ((0, spelled),)
    assert trace.info.devices[0].name == spelled
    assert trace.info.captured == (("trace_id", spelled),)


def test_both_halves_without_a_time_are_counted(tmp_path):
    halves = [{**LAUNCHED, "ph": phase, "ts": ts} for phase, ts in (("B", "x"), ("E", 5))]
    path = tmp_path / "t.json"
    path.write_text(json.dumps([*halves, LAUNCHED]))
    source = read_chrome(path).source
    assert (source.events_parsed, source.events_total) == (1, 3)


@pytest.mark.parametrize("others", [0, 1])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, others):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(TraceError, match="neither a file"):
        open_path(*[tmp_path / "pipe.json"] * (1 + others))


def test_terminal_escapes_in_names_stay_data(tmp_path):
    """The frames hold what the file says; what prints them makes it harmless (see test_formats)."""
    event = {"ph": "X", "cat": "kernel", "name": "\x1b]0;owned\x07k", "pid": 0, "tid": 7, "ts": 1, "dur": 1}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    assert read_chrome(path).device["name"].cast(pl.String).to_list() == ["\x1b]0;owned\x07k"]


@pytest.mark.parametrize("damage", ["first event", "layout changes"])
def test_a_long_file_without_one_layout_is_read_in_pieces(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2_000)
    monkeypatch.setattr(chunks, "RESNIFF_BYTES", 8_000)
    event = '{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7, "ts": %d, "dur": 1, "args": {"stream": 7}}'
    events = [event % (n, n) for n in range(600)]
    if damage == "first event":
        text = '{"ph": "X", broken' + "}, ".join(["", *events[1:]]).replace("}}}, ", "}}, ")
    else:
        text = ", ".join(events[:300]) + "".join(
            f"{' ' * (n % 7)},\n{' ' * (n % 5)}{e}" for n, e in enumerate(events[300:])
        )
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [' + text + "]}")
    trace = read_chrome(path)
    assert trace.source.events_parsed >= 598
    assert not any("closing" in note.reason for note in trace.notes)
