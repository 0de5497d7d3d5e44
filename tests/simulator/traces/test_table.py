"""CSV files of traces: what is read, what is kept apart, what is refused."""

import gzip
import pickle
from pathlib import Path

import pytest

from simulator.traces import table as table_module
from simulator.traces.table import TraceError, find_file, near_and_known, read_table

HEAD = "name,size\n"


def table_of(tmp_path, content, required=("name", "size")):
    path = tmp_path / "jobs.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, required, "job table")


def refusal(read, *arguments) -> TraceError:
    with pytest.raises(TraceError) as caught:
        read(*arguments)
    return caught.value


def test_cells_stay_text_whatever_they_look_like(tmp_path):
    cells = ["6214e9", "103959", "true", "null", "NaN", "007", "2017-11-05", "é"]

    table = table_of(tmp_path, HEAD + "".join(f"{cell},1\n" for cell in cells))

    assert list(table.column("name")) == cells


def test_rows_know_their_lines_with_blank_lines_in_between(tmp_path):
    table = table_of(tmp_path, "\n" + HEAD + "a,1\n\n  \nb,2\n\n")

    assert table.columns == ("name", "size")
    assert [(row.line, dict(row.cells)) for row in table.rows()] == [
        (3, {"name": "a", "size": "1"}),
        (6, {"name": "b", "size": "2"}),
    ]


def test_empty_cells_are_empty_texts(tmp_path):
    table = table_of(tmp_path, HEAD + ',1\na,\n"",""\n')

    assert table.column("name") == ("", "a", "")
    assert table.column("size") == ("1", "", "")


def test_windows_line_ends_a_byte_order_mark_and_quotes_do_not_matter(tmp_path):
    table = table_of(tmp_path, b'\xef\xbb\xbfname,size\r\n"a, ""b""",1\r\nc"d,2\r\n')

    assert table.column("name") == ('a, "b"', 'c"d')
    assert table.column("size") == ("1", "2")


def test_rows_of_another_length_or_with_open_quotes_are_kept_apart(tmp_path):
    table = table_of(tmp_path, HEAD + 'a\nb,1,2\n"c,1\nd,"1,2"\ne,3')

    assert [(row.line, row.reason) for row in table.broken] == [
        (2, "not 2 cells, as in the header"),
        (3, "not 2 cells, as in the header"),
        (4, "not 2 cells, as in the header"),
    ]
    assert (table.column("name"), table.lines) == (("d", "e"), (5, 6))


def test_a_table_without_rows_is_a_table(tmp_path):
    table = table_of(tmp_path, HEAD)

    assert (table.column("size"), list(table.rows())) == ((), [])


def test_compressed_files_are_read_whatever_their_name(tmp_path):
    table = table_of(tmp_path, gzip.compress((HEAD + "a,1\n").encode()))

    assert table.column("name") == ("a",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "1: the file is empty. Is it the job table?"),
        (b"\n\n", "1: the file is empty. Is it the job table?"),
        (
            b"nam,size\n",
            '1: the job table has a column name. Did you mean "nam"?'
            " Known columns: nam, size. Is it the job table?",
        ),
        (b"name,size,name\n", '1: the column "name" is there twice'),
        (
            gzip.compress(HEAD.encode() * 900, mtime=0)[:-10],
            "1: cannot be unpacked. Is the file cut off?",
        ),
        (b"\x1f\x8bno gzip at all", "1: cannot be unpacked. Is the file cut off?"),
        (b"name,size\na,1\n\xff,2\n", "3: a trace is UTF-8 text, this is not"),
        (b"\x00\x01\x02", "1: the job table has a column name."),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    error = refusal(table_of, tmp_path, content)

    assert str(error).startswith(f"{tmp_path}/jobs.csv:{message}")


def test_a_refusal_has_fields(tmp_path):
    error = refusal(table_of, tmp_path, b"")

    assert (error.file, error.line) == (f"{tmp_path}/jobs.csv", 1)
    assert (error.rule, error.hint) == ("the file is empty", "Is it the job table?")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    missing = refusal(read_table, tmp_path / "jobs.csv", (), "job table")
    folder = refusal(read_table, tmp_path, (), "job table")

    assert str(missing) == f"{tmp_path}/jobs.csv: there is no such file"
    assert str(folder) == f"{tmp_path}: this is not a file"


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(table_module, "MAX_TABLE_BYTES", 1000)

    error = refusal(table_of, tmp_path, pack(HEAD.encode() + b"a,1\n" * 1000))

    assert error.rule.startswith("larger than")


def test_the_first_file_of_several_is_found(tmp_path):
    (tmp_path / "b.csv").touch()

    assert find_file(tmp_path, ["a.csv", "b.csv"]) == tmp_path / "b.csv"


def test_what_a_folder_has_instead_is_said(tmp_path):
    (tmp_path / "philly_job.csv").touch()

    lacking = refusal(find_file, tmp_path, ["philly_jobs.csv.gz", "philly_jobs.csv"])
    nowhere = refusal(find_file, tmp_path / "no", ["a.csv"])
    file = refusal(find_file, tmp_path / "philly_job.csv", ["a.csv"])

    assert str(lacking) == (
        f"{tmp_path}: the folder has no file philly_jobs.csv.gz or philly_jobs.csv."
        ' Did you mean "philly_job.csv"? Known files there: philly_job.csv'
    )
    assert nowhere.rule == "there is no such folder"
    assert file.rule == "this is a file, not a folder"


def test_long_lists_of_names_are_cut():
    hint = near_and_known("q", [f"name{i:02}" for i in range(20)], "names")

    assert hint.endswith("name15 and 4 more")
    assert near_and_known("q", [], "names") == "There are no names"


def test_a_folder_of_folders_says_which_there_are(tmp_path: Path):
    (tmp_path / "openb").mkdir()

    with pytest.raises(TraceError, match="It has only folders: openb"):
        find_file(tmp_path, ("nodes.csv",))


def test_an_error_comes_whole_from_another_process():
    error = TraceError("jobs.csv", "a rule", "a way out", line=3)

    again = pickle.loads(pickle.dumps(error))

    assert (str(again), again.line, again.hint) == (str(error), 3, "a way out")
