import socket
import threading
import time

import pytest

from godot_parallel.engine.connection import Listener
from godot_parallel.errors import EngineDiedError, EngineTimeoutError, ProtocolError, UsageError


@pytest.fixture
def pair():
    listener = Listener()
    theirs = socket.create_connection(("127.0.0.1", listener.port))
    connection = listener.accept(5)
    listener.close()
    yield connection, theirs
    connection.close()
    theirs.close()


def test_a_taken_port_is_named():
    listener = Listener()
    with pytest.raises(UsageError, match=rf"port {listener.port} is already in use.*--editor_port"):
        Listener(listener.port)
    listener.close()
    listener.close()


def test_nobody_comes():
    listener = Listener()
    started = time.monotonic()
    assert listener.accept(0.1) is None
    assert 0.05 < time.monotonic() - started < 2
    listener.close()


def test_buffers_are_filled_across_pieces(pair):
    connection, theirs = pair
    parts = [bytearray(n) for n in (3, 5, 1000)]
    data = bytes(i % 251 for i in range(1008))

    def send():
        for i in range(0, len(data), 7):
            theirs.sendall(data[i : i + 7])

    thread = threading.Thread(target=send)
    thread.start()
    connection.receive_into([memoryview(p) for p in parts])
    thread.join()
    assert b"".join(parts) == data


def test_half_a_prefix_then_silence(pair):
    connection, theirs = pair
    connection.timeout = 0.2
    theirs.sendall(b"\x01\x02")
    with pytest.raises(EngineTimeoutError, match="within 0.2 s"):
        connection.receive_message()
    with pytest.raises(EngineDiedError):  # the channel is closed and never used again
        connection.receive_message()


def test_a_trickle_does_not_stretch_the_time_limit(pair):
    connection, theirs = pair
    connection.timeout = 0.3
    stop = threading.Event()

    def trickle():
        while not stop.wait(0.05):
            theirs.send(b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    started = time.monotonic()
    with pytest.raises(EngineTimeoutError):
        connection.receive_bytes(1000)
    stop.set()
    thread.join()
    assert time.monotonic() - started < 2


def test_a_clean_end_is_told(pair):
    connection, theirs = pair
    theirs.close()
    with pytest.raises(EngineDiedError, match="closed the connection"):
        connection.receive_message()


def test_a_message_that_is_too_long_is_refused_before_memory_is_taken(pair):
    connection, theirs = pair
    theirs.sendall(b"\xff\xff\xff\x7f")
    with pytest.raises(ProtocolError, match="limit"):
        connection.receive_message()


def test_what_is_no_json_is_quoted(pair):
    connection, theirs = pair
    theirs.sendall(b"\x03\x00\x00\x00abc")
    with pytest.raises(ProtocolError, match="abc"):
        connection.receive_json()
