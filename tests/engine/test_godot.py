import hashlib
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from godot_parallel.engine import apt_sources, debian, godot, release
from godot_parallel.engine.apt_sources import Mirror
from godot_parallel.engine.command import run
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


def test_the_variable_may_be_relative_or_a_name_in_path(bare, monkeypatch):
    program(bare / "bin" / "godot-4.5", "4.5.stable")
    monkeypatch.chdir(bare / "bin")
    for written in ("./godot-4.5", "godot-4.5", "../bin/godot-4.5"):
        monkeypatch.setenv("GODOT", written)
        found = godot.find_godot()
        assert found.path.is_absolute()
        assert found.path.samefile(bare / "bin" / "godot-4.5")


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


@pytest.fixture
def installer(bare, monkeypatch):
    """Puts a fake in the place of the 200 MB download; lists its calls."""
    calls = []

    def install(folder, progress):
        assert not folder.exists()  # what was there was cleared away
        calls.append(folder)
        time.sleep(0.3)
        program(folder / "usr" / "bin" / "godot", "4.6.3.stable")
        (folder / "complete-debian").touch()

    monkeypatch.setattr(debian, "is_possible", lambda: True)
    monkeypatch.setattr(debian, "install", install)
    return calls


def test_half_an_installation_is_made_anew(bare, installer):
    program(bare / "cache" / "godot" / "usr" / "bin" / "godot", "half", 1)
    assert godot.find_godot().version == "4.6.3.stable"
    assert godot.find_godot(install=False).source == "private copy"
    assert len(installer) == 1


def test_a_private_copy_that_does_not_run_any_more_is_made_anew(bare, installer):
    program(bare / "cache" / "godot" / "usr" / "bin" / "godot", "a library is missing", 127)
    (bare / "cache" / "godot" / "complete-debian").touch()
    with pytest.raises(GodotNotFoundError, match=r"private copy\) is no Godot.*127"):
        godot.find_godot(install=False)
    assert godot.find_godot().version == "4.6.3.stable"
    assert len(installer) == 1


def test_a_private_copy_that_only_answers_late_is_left_alone(bare, installer, monkeypatch):
    slow = program(bare / "cache" / "godot" / "usr" / "bin" / "godot", "4.6.3")
    slow.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    (bare / "cache" / "godot" / "complete-debian").touch()
    monkeypatch.setattr(godot, "_VERSION_LIMIT_S", 0.2)
    with pytest.raises(GodotNotFoundError, match="timed out"):
        godot.find_godot()
    assert installer == []


def test_two_installations_at_once_do_not_collide(bare, installer):
    told = []
    threads = [threading.Thread(target=godot.find_godot, args=(True, told.append)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(installer) == 1
    assert told.count("waiting for another installation of Godot to end") == 3


def test_a_failed_installation_tells_every_way_and_leaves_nothing(bare, monkeypatch):
    monkeypatch.setattr(apt_sources, "mirrors", lambda: [Mirror("http://one.invalid/debian")])
    program(bare / "bin" / "dpkg", "")
    # Fails as APT does; keeps the sources that it was given.
    own = bare / "bin" / "apt-get"
    own.write_text(
        '#!/bin/sh\nfor o in "$@"; do case "$o" in Dir::Etc::sourcelist=*) '
        f'while read l; do echo "$l"; done < "${{o#*=}}" >> {bare}/asked;; esac; done\n'
        "echo 'E: Unable to locate package godot' >&2\nexit 100\n"
    )
    own.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("GODOT_PARALLEL_RELEASES", "http://127.0.0.1:1")
    with pytest.raises(GodotNotFoundError) as caught:
        godot.find_godot(progress=lambda text: None)
    asked = (bare / "asked").read_text().splitlines()
    assert [line.split()[-2:] for line in asked] == [["testing", "main"], ["unstable", "main"]]
    for words in ("testing: apt-get failed with exit code 100", "Unable to locate", "the official release:"):
        assert words in str(caught.value)
    assert not (bare / "cache" / "godot").exists()


def test_a_command_that_takes_too_long_leaves_nothing_behind(tmp_path):
    # A wrapper's child would hold the pipes open for a minute, if only the wrapper were killed.
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\n/bin/sleep 60 &\necho $! > {tmp_path}/pid\nwait\n")
    wrapper.chmod(0o755)
    started = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run([wrapper], 0.5)
    assert time.monotonic() - started < 5
    time.sleep(0.2)
    state = f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat"
    assert not os.path.exists(state) or " Z " in open(state).read()  # noqa: SIM115


SOURCES_LIST = """# deb http://old.invalid/debian stable main
deb [arch=amd64 trusted=yes] http://one.invalid/debian bookworm main contrib
deb http://one.invalid/debian/ bookworm-updates main
deb-src http://source.invalid/debian bookworm main
deb http://one.invalid/debian-security bookworm-security main
deb [signed-by=/keys/lan.gpg] http://lan.invalid/pool trixie main  # by path and by suite
deb cdrom:[Debian]/ bookworm main
"""
DEB822 = """# made by an installer
Types: deb deb-src
# http://commented.invalid/debian
URIs: https://two.invalid/debian/
 mirror+file:///etc/apt/mirrors/debian.list
Suites: trixie trixie-updates
Components: main
Signed-By: /keys/archive.pgp

Enabled: no
Types: deb
URIs: http://disabled.invalid/debian
Suites: trixie
Components: main

Types: deb
URIs: https://vendor.invalid/linux/debian
Suites: trixie
Components: stable
"""


def test_mirrors_are_read_in_both_formats(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(SOURCES_LIST)
    (tmp_path / "sources.list.d" / "d.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "other.list").write_text("deb https://three.invalid/apt stable-x main\n")
    (tmp_path / "sources.list.d" / "old.list.bak").write_text("deb http://bak.invalid/debian sid main\n")
    one, lan, two, file = apt_sources.mirrors(tmp_path)
    assert (one.address, one.trusted) == ("http://one.invalid/debian", True)
    assert lan == Mirror("http://lan.invalid/pool", "/keys/lan.gpg")
    assert two == Mirror("https://two.invalid/debian", "/keys/archive.pgp")
    assert file == Mirror("mirror+file:///etc/apt/mirrors/debian.list", "/keys/archive.pgp")
    assert lan.line("testing") == "deb [ signed-by=/keys/lan.gpg ] http://lan.invalid/pool testing main\n"
    assert Mirror("file:/d").line("sid") == "deb file:/d sid main\n"


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
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write((data or b"")[: None if self.path.endswith(".txt") else files.get("cut at")])

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


def test_a_truncated_download_is_refused(server, tmp_path):
    server["cut at"] = -5
    with pytest.raises(GodotNotFoundError, match=r"can't be downloaded|wrong checksum"):
        release.install(tmp_path / "godot", lambda text: None)
    assert not release.is_complete(tmp_path / "godot")


def test_what_is_no_archive_is_told(server, tmp_path):
    server[release.asset_name()] = b"a page that says: please log in"
    digest = hashlib.sha512(server[release.asset_name()]).hexdigest()
    server["SHA512-SUMS.txt"] += f"{digest}  {release.asset_name()}\n".encode()
    with pytest.raises(GodotNotFoundError, match="something unexpected"):
        release.install(tmp_path / "godot", lambda text: None)


def test_a_release_that_is_not_there_is_told(server, tmp_path):
    del server["SHA512-SUMS.txt"]
    with pytest.raises(GodotNotFoundError, match="checksums can't be downloaded"):
        release.install(tmp_path / "godot", lambda text: None)
