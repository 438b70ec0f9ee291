#!/usr/bin/env python3
"""A game made of Python: a real socket peer that takes the same options, with switchable faults.

It is started as a program (see ``fake_game`` in conftest.py). ``FAKE_FAULT`` chooses what goes wrong and
``FAKE_AT`` the step at which it does. Observations are exact small numbers, so that tests can say what to
expect: agent a of environment e at step s of episode k sees [e, a, s, k], and is rewarded e + s / 8.
An episode has ``FAKE_LENGTH`` steps (5), ends terminated in even environments and truncated in odd ones.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time

FAULT = os.environ.get("FAKE_FAULT", "")
AT = int(os.environ.get("FAKE_AT", "2"))
LENGTH = int(os.environ.get("FAKE_LENGTH", "5"))
REWARD = os.environ.get("FAKE_REWARD", "")
CONTINUOUS = {"move": {"size": 2, "action_type": "continuous"}}
MIXED = {"z": {"size": 3, "action_type": "discrete"}, "a": {"size": 2, "action_type": "continuous"}}


def options() -> dict[str, str]:
    return dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--") and "=" in a)


class Wire:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read(self) -> bytes:
        return self.exactly(struct.unpack("<I", self.exactly(4))[0])

    def exactly(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            part = self.socket.recv(n - len(data))
            if not part:
                sys.exit(1)
            data += part
        return data

    def write(self, payload: bytes) -> None:
        self.socket.sendall(struct.pack("<I", len(payload)) + payload)

    def write_json(self, message: object) -> None:
        self.write(json.dumps(message).encode())


class Game:
    def __init__(self) -> None:
        told = options()
        self.instances = int(told.get("instances", "1"))
        self.first = int(told.get("environment", "0"))
        self.native = FAULT != "foreign"
        self.actions = MIXED if FAULT == "mixed" else CONTINUOUS
        self.steps = [0] * self.instances
        self.episodes = [0] * self.instances
        self.total = 0
        self.tick = 0
        self.repeat = int(told.get("action_repeat", "8"))
        self.wire = Wire(int(told["port"]))

    def env_info(self) -> dict[str, object]:
        spaces = [{"obs": {"size": [4], "space": "box"}} for _ in range(self.instances)]
        if FAULT == "disagree":
            spaces[-1] = {"obs": {"size": [5], "space": "box"}}
        info: dict[str, object] = {
            "type": "env_info",
            "observation_space": spaces,
            "action_space": [self.actions] * self.instances,
            "n_agents": 0 if FAULT == "no_agents" else self.instances,
            "agent_policy_names": ["shared_policy"] * self.instances,
        }
        if self.native:
            info["godot_parallel"] = {
                "protocol": 99 if FAULT == "version" else 1,
                "token": "wrong" if FAULT == "token" else os.environ["GODOT_PARALLEL_TOKEN"],
                "addon": "fake",
                "engine": "fake",
                "ticks_per_second": int(os.environ.get("FAKE_TICKS", "60")),
                "action_repeat": self.repeat,
                "instances": self.instances,
                "isolation": "world",
                "agents": [{"instance": i, "path": f"/root/fake{i}"} for i in range(self.instances)],
            }
        return info

    def obs(self, i: int) -> list[float]:
        return [self.first + i, 0.0, float(self.steps[i]), float(self.episodes[i])]

    def step(self) -> tuple[list[float], list[int], list[int], dict[int, list[float]]]:
        self.total += 1
        self.tick += self.repeat
        rewards, terminated, truncated = [], [0] * self.instances, [0] * self.instances
        final: dict[int, list[float]] = {}
        for i in range(self.instances):
            self.steps[i] += 1
            rewards.append(float(REWARD) if REWARD else self.first + i + self.steps[i] / 8)
            if self.steps[i] == LENGTH:
                even = (self.first + i) % 2 == 0 and not REWARD
                (terminated if even else truncated)[i] = 1
                final[i] = self.obs(i)
                self.steps[i], self.episodes[i] = 0, self.episodes[i] + 1
        return rewards, terminated, truncated, final

    def transition(self, rewards, terminated, truncated, final) -> bytes:  # type: ignore[no-untyped-def]
        n = self.instances
        obs = [x for i in range(n) for x in self.obs(i)]
        if FAULT == "nan" and self.total >= AT:
            obs[2] = float("nan")
        if FAULT == "inf_reward" and self.total >= AT:
            rewards[-1] = float("inf")
        if FAULT == "nan_final":
            final = {i: [values[0], float("nan"), *values[2:]] for i, values in final.items()}
        infos = {str(i): {"is_success": self.episodes[i] % 2 == 1, "length": LENGTH} for i in final}
        info = json.dumps(infos).encode() if infos else b""
        ticks = self.repeat if self.total else 0
        head = struct.pack("<IIQffffIIII", 17, len(final), self.tick, 5, 3, 2, 1, len(info), 7, ticks, 0)
        pad = b"\0" * (-n % 4)
        body = struct.pack(f"<{n * 4}f", *obs) + struct.pack(f"<{n}f", *rewards)
        body += bytes(terminated) + pad + bytes(truncated) + pad
        tail = struct.pack(f"<{len(final)}I", *final)
        tail += b"".join(struct.pack("<4f", *values) for values in final.values())
        return head + body + tail + info

    def misbehave(self) -> None:
        if self.total + 1 != AT:
            return
        if FAULT == "die":
            print("the game crashes now", flush=True)
            os._exit(3)
        if FAULT == "quit":
            os._exit(0)
        if FAULT == "hang":
            time.sleep(1000)
        if FAULT == "slow":
            time.sleep(1.5)
        if FAULT == "fin":
            self.wire.socket.shutdown(socket.SHUT_RDWR)
            time.sleep(1000)
        if FAULT == "rst":
            self.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.wire.socket.close()
            time.sleep(1000)
        if FAULT == "half":
            self.wire.socket.sendall(b"\x40\x00")
            time.sleep(1000)
        if FAULT == "rubbish":
            self.wire.write(b"this is no transition, but long enough to be read as the head of one")
        if FAULT == "error":
            self.wire.write(struct.pack("<I", 21) + b"agent /root/fake0 has 20 values, 21 expected")
            os._exit(1)

    def serve(self) -> None:
        self.wire.read()
        self.wire.read()
        if FAULT == "refuse":
            self.wire.write_json(
                {
                    "type": "error",
                    "message": "the scene has no agents to train",
                    "token": os.environ["GODOT_PARALLEL_TOKEN"],
                }
            )
            os._exit(1)
        self.wire.write_json(self.env_info())
        while True:
            message = self.wire.read()
            if not self.native:
                self.answer_json(json.loads(message))
            else:
                self.answer(struct.unpack("<I", message[:4])[0], message)

    def answer(self, kind: int, message: bytes) -> None:
        if kind == 1:
            self.misbehave()
            self.wire.write(self.transition(*self.step()))
        elif kind == 2:
            _, self.first, self.seed, n = struct.unpack("<IIQI", message[:20])
            self.episodes = list(struct.unpack(f"<{n}I", message[20:]))
            self.steps = [0] * self.instances
            zeros = [0] * self.instances
            self.wire.write(self.transition([0.0] * self.instances, zeros, zeros, {}))
        elif kind == 3:
            sys.exit(0)
        elif kind == 4:
            request = json.loads(message[4:])
            values = [[request["op"], request["name"], request["args"], a] for a in request["agents"]]
            self.wire.write(struct.pack("<I", 20) + json.dumps({"returns": values}).encode())

    def answer_json(self, message: dict[str, object]) -> None:
        observe = lambda: [{"obs": self.obs(i)} for i in range(self.instances)]  # noqa: E731
        if message["type"] == "reset":
            self.wire.write_json({"type": "reset", "obs": observe()})
        elif message["type"] == "action":
            rewards, terminated, truncated, _ = self.step()
            done = [bool(a + b) for a, b in zip(terminated, truncated, strict=True)]
            self.wire.write_json({"type": "step", "obs": observe(), "reward": rewards, "done": done})
        elif message["type"] == "close":
            sys.exit(0)


def main() -> None:
    print("fake engine starts", flush=True)
    if FAULT == "die_at_start":
        print("script does not parse", flush=True)
        sys.exit(3)
    if FAULT == "silent":
        time.sleep(1000)
    if FAULT == "slow_start":
        time.sleep(1.0)
    Game().serve()


if __name__ == "__main__":
    main()
