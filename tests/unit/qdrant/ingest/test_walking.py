"""Which files of a folder are read: patterns, .gitignore as Git has it, links; and a root that is read again."""

from __future__ import annotations

import os
import shutil
import subprocess
from operator import length_hint

import pytest

from twinvec.errors import ConfigurationError
from twinvec_qdrant import Failure, Root, read_source

FILES = (
    *("a.md", "a.txt", "docs/b.md", "docs/drafts/c.md", "docs/drafts/keep.md", "docs/x.log", "log/d.md"),
    *("deep/build/e.md", "deep/src/f.md", "deep/src/f.log", "ümlaut/g.md", "# odd.md", "deep/build.md"),
)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    return folder


def ids(source, **options) -> list[str]:
    return [each.id for each in read_source(source, **options)]


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        (["*.md"], [], [name for name in FILES if name.endswith(".md")]),
        (["/*.md"], [], ["# odd.md", "a.md"]),
        (["docs/"], [], [name for name in FILES if name.startswith("docs/")]),
        (["*.md"], ["**/drafts/**", "deep"], ["# odd.md", "a.md", "docs/b.md", "log/d.md", "ümlaut/g.md"]),
        ([], ["*", "!docs", "!docs/b.md"], ["docs/b.md"]),
        (["**/src/*.md", "*.txt"], [], ["a.txt", "deep/src/f.md"]),
        (["nothing"], [], []),
    ],
)
def test_patterns_choose_files(folder, include, exclude, left):
    assert ids(folder, include=include, exclude=exclude) == sorted(left, key=lambda name: name.split("/"))
    assert length_hint(read_source(folder, include=include, exclude=exclude)) == len(left)


def test_a_pattern_that_means_nothing_is_named(folder):
    with pytest.raises(ConfigurationError, match=r"include.*such as"):
        read_source(folder, include=["!"])


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with Git")
@pytest.mark.parametrize(
    "rules",
    [
        {".gitignore": "*.log\nbuild/\n"},
        {".gitignore": "*.md\n!a.md\n"},
        {".gitignore": "docs/*\n!docs/drafts\n", "docs/drafts/.gitignore": "*\n!keep.md\n"},
        {".gitignore": "/src\n\\# odd.md\n  \n# a comment\nümlaut\n", "deep/.gitignore": "/src/*.log\n!build\n"},
        {".gitignore": "*.md\n", "docs/.gitignore": "!*.md\n", "docs/drafts/.gitignore": "c.md\n"},
        {".gitignore": "*\n!docs\n!docs/b.md\n!deep/\n!deep/src\n!f.md\n"},
        {".gitignore": "docs\n!docs/\n*.log\n!/docs/*.log\n"},
        {".gitignore": "**/drafts/**\ndeep/**/f.*\n[abc].txt\n"},
        {".gitignore": "\ufefflog\r\n*.txt\r\n!\nfoo[\n"},
    ],
)
def test_gitignore_means_what_it_means_to_git(folder, rules):
    for name, text in rules.items():
        (folder / name).write_bytes(text.encode())
    git = ["git", "-C", str(folder), "-c", "core.quotepath=off", "-c", "core.excludesfile="]
    subprocess.run([*git, "init", "-q"], check=True)
    shown = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard", "-z"], check=True, capture_output=True, text=True
    )
    tracked = {name for name in shown.stdout.split("\0") if name and not name.endswith(".gitignore")}
    assert set(ids(folder)) == tracked
    assert len(tracked) < len(FILES)
    assert set(ids(folder, gitignore=False)) == set(FILES)


def test_a_gitignore_that_cannot_be_read_hides_its_folder(folder, monkeypatch):
    (folder / "docs" / ".gitignore").write_text("*.log\n")
    real = os.lstat

    def lstat(path, **options):
        if str(path).endswith("docs/.gitignore"):
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(os, "lstat", lstat)
    monkeypatch.setattr("pathlib.Path.lstat", lambda path: lstat(path))
    failures = [each for each in read_source(folder) if isinstance(each, Failure)]
    assert [(each.source, each.hides, each.below) for each in failures] == [("docs/", True, "docs/")]


def test_links_that_leave_the_folder_are_not_followed(folder, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "folder-too").mkdir()
    (tmp_path / "folder-too" / "other.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "near.txt").symlink_to("../folder-too/other.txt")
    assert set(ids(folder)) == set(FILES)


def test_a_file_by_several_links_is_one_document_with_the_first_path(folder):
    (folder / "0.txt").symlink_to("docs/b.md")
    (folder / "z.txt").symlink_to("docs/b.md")
    os.link(folder / "a.txt", folder / "docs" / "hard.txt")
    found = {each.id: each.text for each in read_source(folder)}
    assert set(found) == {*FILES, "0.txt"} - {"docs/b.md"}
    assert found["0.txt"] == "text of docs/b.md"


def test_a_folder_that_is_itself_a_link_is_read(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    (folder / "0.txt").symlink_to(folder / "a.md")
    assert ids(tmp_path / "link") == ids(folder)


def test_a_root_is_read_again_and_tells_its_size(folder):
    root = Root(str(folder), include=("*.md",))
    reading = root.read()
    sizes = [(reading.done, each.id) for each in reading]
    assert reading.size == reading.done == sum((folder / name).stat().st_size for _, name in sizes)
    assert [done for done, _ in sizes] == sorted({done for done, _ in sizes})
    (folder / "new.md").write_text("new")
    assert [each.id for each in root.read()] == sorted(
        [*(name for _, name in sizes), "new.md"], key=lambda name: name.split("/")
    )


def test_a_root_comes_back_from_json():
    for root in (
        Root("-"),
        Root("docs", ("*.md",), ("a",), gitignore=False, records=False),
        Root.named("docs/**/*.md", exclude=("drafts",)),
    ):
        assert Root.from_dict(root.as_dict()) == root
    assert Root("docs").as_dict() == {"path": "docs"}
    with pytest.raises(ConfigurationError, match="pathh"):
        Root.from_dict({"pathh": "docs"})


def test_a_pattern_names_the_files_that_it_matches(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert [each.id for each in Root.named("folder/*.md").read()] == ["# odd.md", "a.md"]
    assert [each.id for each in Root.named("folder/**/*.log").read()] == ["deep/src/f.log", "docs/x.log"]
    monkeypatch.chdir(folder)
    assert [each.id for each in Root.named("*.txt").read()] == ["a.txt"]
    (folder / "[a].txt").write_text("a file may be called so")
    assert [each.id for each in Root.named("[a].txt").read()] == ["[a].txt"]


def test_lock_files_of_open_documents_are_left_out(folder):
    for name in ("~$report.docx", "docs/~$prices.xlsx", "docs/.~lock.prices.ods#", "~notes.md", "$notes.md", "a~$b.md"):
        (folder / name).write_bytes(b"text" if name.endswith(".md") else b"\x05Ann Bee" + bytes(150))
    (folder / "~$folder").mkdir()
    (folder / "~$folder" / "h.md").write_text("text")
    found = ids(folder)
    assert sorted(found) == sorted([*FILES, "~notes.md", "$notes.md", "a~$b.md", "~$folder/h.md"])
    assert length_hint(read_source(folder)) == len(found)
    root = Root(str(folder))
    assert not root.follows(folder / "~$report.docx")
    assert root.follows(folder / "~$folder" / "h.md")
    assert Root(str(folder), include=("~$*.docx",)).is_empty()
    (alone,) = read_source(folder / "~$report.docx")
    assert isinstance(alone, Failure), "who names it has it read"


def test_thumbnails_of_windows_are_left_out(folder):
    for name in ("Thumbs.db", "docs/Thumbs.db"):
        (folder / name).write_bytes(b"\xd0\xcf\x11\xe0" + bytes(150))
    assert sorted(ids(folder)) == sorted(FILES)
    assert not Root(str(folder)).follows(folder / "docs" / "Thumbs.db")


def test_a_root_follows_what_it_reads(folder, tmp_path):
    (folder / ".gitignore").write_text("*.log\nlog/\n")
    (folder / "env").mkdir()
    (folder / "env" / "pyvenv.cfg").touch()
    root = Root(str(folder), exclude=("drafts",))
    read = {each.id for each in root.read()}
    everything = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    followed = {name for name in everything if root.follows(folder / name)}
    assert followed == {*read, ".gitignore"}
    assert root.follows(folder / "not" / "there.md")
    assert root.follows(folder / "docs")
    for name in (".git/index", "env/x.py", "node_modules/x.js", "docs/drafts/new.md", "docs/new.log"):
        assert not root.follows(folder / name), name
    assert not root.follows(tmp_path / "other.md")
    single = Root(str(folder / "a.md"))
    assert single.follows(folder / "a.md")
    assert not single.follows(folder / "a.txt")
    assert not Root("-").follows(folder / "a.md")


HIDDEN = (
    *(".env", ".github/a.md", ".github/deep/b.yml", ".github/.cache/c.md", "deep/.github/d.md", ".git/e.md"),
    *(".hidden/f.md", "docs/.g.md", ".github/node_modules/h.md"),
)
IN_GITHUB = [".github/.cache/c.md", ".github/a.md", ".github/deep/b.yml"]


@pytest.mark.parametrize(
    ("include", "found"),
    [
        ([".github/**"], IN_GITHUB),
        (["/.github/"], IN_GITHUB),
        ([".github"], [*IN_GITHUB, "deep/.github/d.md"]),
        (["*", ".github/**"], [*FILES, *IN_GITHUB]),
        ([".github/*.md"], [".github/a.md"]),
        ([".github/**", "!.github/deep/**"], [".github/.cache/c.md", ".github/a.md"]),
        ([".github/**", "/*.txt"], [*IN_GITHUB, "a.txt"]),
        (["**/.github/*.md", "*.txt"], [".github/a.md", "a.txt", "deep/.github/d.md"]),
        ([".github/**/*.yml"], [".github/deep/b.yml"]),
        (["docs/.*"], ["docs/.g.md"]),
        ([".env*"], [".env"]),
        (["/.*"], [".env", *IN_GITHUB, ".hidden/f.md"]),
        ([".git/*.md"], [".git/e.md"]),
        (["./*.txt", "../*.txt"], []),
        (["/*.txt"], ["a.txt"]),
        (["!.github/**", "/*.txt"], ["a.txt"]),
    ],
)
def test_a_pattern_that_names_hidden_files_includes_them(folder, include, found):
    for name in HIDDEN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    assert sorted(ids(folder, include=include)) == sorted(found)
    root = Root(str(folder), include=tuple(include))
    followed = {name for name in (*FILES, *HIDDEN) if root.follows(folder / name)}
    assert followed == set(found)
    assert Root.from_dict(root.as_dict()) == root
    assert not any(name in HIDDEN for name in ids(folder))
    assert not any(name in HIDDEN for name in ids(folder, include=["*.md"]))


def test_patterns_to_exclude_and_gitignore_leave_out_hidden_files_that_are_named(folder):
    for name in HIDDEN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    (folder / ".gitignore").write_text("deep/\n")
    found = [".github/.cache/c.md", ".github/a.md"]
    assert ids(folder, include=[".github/**"]) == found
    assert ids(folder, include=[".github/**"], exclude=[".cache"]) == found[1:]
    assert [each.id for each in Root.named(folder / ".github" / "*.md").read()] == ["a.md"]
