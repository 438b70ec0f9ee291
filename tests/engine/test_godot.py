import hashlib
import io
import subprocess
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from godot_parallel.engine import debian, godot, release
from godot_parallel.errors import GodotNotFoundError


def program(path, output, code=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without any Godot."""
    monkeypatch.delenv("GODOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("GODOT_PARALLEL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_the_variable_wins(bare, monkeypatch):
    program(bare / "bin" / "godot", "4.5.stable")
    monkeypatch.setenv("GODOT", str(program(bare / "own", "4.6.1.stable.official")))
    found = godot.find_godot()
    assert (found.version, found.source) == ("4.6.1.stable.official", "$GODOT")


def test_a_wrong_variable_is_an_error_not_skipped(bare, monkeypatch):
    program(bare / "bin" / "godot", "4.5.stable")
    monkeypatch.setenv("GODOT", str(bare / "nothing"))
    with pytest.raises(GodotNotFoundError, match=r"nothing \(\$GODOT\) does not run"):
        godot.find_godot()


def test_path_comes_next(bare):
    program(bare / "bin" / "godot4", "4.4.1.stable")
    assert godot.find_godot(install=False).source == "PATH"


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [("3.5.stable", 0, "4.4 or later"), ("hello", 0, "no Godot"), ("4.6", 1, "exit code 1")],
)
def test_what_does_not_fit_is_listed_with_everything_tried(bare, output, code, words):
    program(bare / "bin" / "godot", output, code)
    with pytest.raises(GodotNotFoundError) as caught:
        godot.find_godot(install=False)
    text = str(caught.value)
    assert words in text
    assert "$GODOT is not set" in text
    assert "no 'godot4' in PATH" in text
    assert "no private copy" in text
    assert "Install Godot 4" in text


def test_half_an_installation_is_made_anew(bare, monkeypatch):
    private = bare / "cache" / "godot"
    (private / "usr" / "bin").mkdir(parents=True)
    (private / "usr" / "bin" / "godot").write_text("half")

    def install(folder, progress):
        assert not folder.exists()  # the half was cleared away
        program(folder / "usr" / "bin" / "godot", "4.6.3.stable")
        (folder / "complete-debian").touch()

    monkeypatch.setattr(debian, "is_possible", lambda: True)
    monkeypatch.setattr(debian, "install", install)
    assert godot.find_godot().version == "4.6.3.stable"


def test_two_installations_at_once_do_not_collide(bare, monkeypatch):
    calls = []

    def install(folder, progress):
        calls.append(folder)
        program(folder / "usr" / "bin" / "godot", "4.6.3.stable")
        (folder / "complete-debian").touch()

    monkeypatch.setattr(debian, "is_possible", lambda: True)
    monkeypatch.setattr(debian, "install", install)
    threads = [threading.Thread(target=godot.find_godot) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_mirrors_are_read_in_both_formats(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://old.invalid/debian stable main\ndeb [arch=amd64] http://one.invalid/debian bookworm main\n"
        "deb http://one.invalid/debian-security bookworm main\n"
    )
    (tmp_path / "sources.list.d" / "d.sources").write_text(
        "Types: deb\nURIs: https://two.invalid/debian/\nSuites: x\n"
    )
    (tmp_path / "sources.list.d" / "other.list").write_text("deb https://three.invalid/apt stable main\n")
    assert debian.mirrors(tmp_path) == ["http://one.invalid/debian", "https://two.invalid/debian"]


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("linux", "x86_64", "linux.x86_64.zip"),
        ("linux", "aarch64", "linux.arm64.zip"),
        ("win32", "AMD64", "win64.exe.zip"),
        ("darwin", "arm64", "macos.universal.zip"),
    ],
)
def test_release_names(system, machine, name):
    assert release.asset_name(system, machine).endswith(f"_{name}")


def test_no_release_for_strange_systems():
    with pytest.raises(GodotNotFoundError, match="plan9"):
        release.asset_name("plan9", "mips")


@pytest.fixture
def server(monkeypatch):
    """Serves a release; what is in ``files`` can be spoilt."""
    files = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            data = files.get(self.path.rsplit("/", 1)[1])
            self.send_response(200 if data is not None else 404)
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    monkeypatch.setenv("GODOT_PARALLEL_RELEASES", f"http://127.0.0.1:{http.server_port}")
    editor = release.asset_name()
    files[editor] = zipped(editor.removesuffix(".zip"), b"#!/bin/sh\necho 4.6.3.stable.official\n")
    templates = f"Godot_v{release.VERSION}_export_templates.tpz"
    files[templates] = zipped("templates/linux_release.x86_64", b"template")
    sums = "".join(f"{hashlib.sha512(data).hexdigest()}  {name}\n" for name, data in files.items())
    files["SHA512-SUMS.txt"] = sums.encode()
    yield files
    http.shutdown()
    thread.join()
    http.server_close()


def zipped(name, data):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, data)
    return stream.getvalue()


def test_the_release_is_downloaded_verified_and_unpacked(server, tmp_path):
    folder = tmp_path / "godot"
    release.install(folder, lambda text: None)
    assert release.is_complete(folder)
    done = subprocess.run([release.program(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == "4.6.3.stable.official\n"
    template = "editor_data/export_templates/4.6.3.stable/linux_release.x86_64"
    assert (release.program(folder).parent / template).read_bytes() == b"template"


def test_a_wrong_checksum_is_refused(server, tmp_path):
    server[release.asset_name()] = server[release.asset_name()][:-5]
    with pytest.raises(GodotNotFoundError, match="wrong checksum"):
        release.install(tmp_path / "godot", lambda text: None)
    assert not release.is_complete(tmp_path / "godot")


def test_a_release_that_is_not_there_is_told(server, tmp_path):
    del server["SHA512-SUMS.txt"]
    with pytest.raises(GodotNotFoundError, match="checksums can't be downloaded"):
        release.install(tmp_path / "godot", lambda text: None)
