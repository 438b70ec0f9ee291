import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from godot_parallel.engine import protocol
from godot_parallel.engine.link import EngineTimes, NativeLink, Rows
from godot_parallel.engine.protocol import FrameLayout, Header
from godot_parallel.engine.seeding import episode_seed, spawn_seed
from godot_parallel.engine.spaces import ActionKey, EnvSpec, ObsKey
from godot_parallel.errors import EnvironmentDataError, ProtocolError, ProtocolVersionError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "frames.json").read_text())
SPEC = EnvSpec(
    n_agents=3,
    obs=(ObsKey("obs", (2,), np.dtype("f4")), ObsKey("image_2d", (3,), np.dtype("u1"), 0, 255)),
    actions=(ActionKey("z", "discrete", 3), ActionKey("a", "continuous", 2)),
    policy_names=("p",) * 3,
    instance_of=(0, 1, 2),
    agent_paths=("/a", "/b", "/c"),
    instances=3,
    native=True,
)
LAYOUT = FrameLayout.of(SPEC)


class Tape:
    """Stands for a connection: what is sent is kept, what is received was recorded."""

    def __init__(self, data=b""):
        self.data, self.sent = data, b""

    def send(self, data):
        self.sent += bytes(data)

    def receive_some(self, buffers):
        """As if the first bytes behind the head had come along."""
        head, rest = buffers[0], buffers[1][:2]
        head[:], rest[:] = self.data[: len(head)], self.data[len(head) : len(head) + 2].ljust(2, b"?")
        self.data = self.data[len(head) + 2 :]
        return len(head) + 2

    def receive_into(self, buffers, skip):
        for buffer in buffers:
            rest, skip = buffer[skip:], max(0, skip - len(buffer))
            rest[:], self.data = self.data[: len(rest)], self.data[len(rest) :]

    def receive_bytes(self, n):
        part, self.data = self.data[:n], self.data[n:]
        return bytearray(part)

    def close(self):
        pass


def make_rows():
    obs = [np.zeros((3, 2), "<f4"), np.zeros((3, 3), "u1")]
    return Rows(obs, np.zeros(3, "f4"), np.zeros(3, "u1"), np.zeros(3, "u1"))


def test_golden_transition_is_received_into_the_rows():
    golden, rows, times = GOLDEN["transition"], make_rows(), EngineTimes()
    tail = NativeLink(SPEC, Tape(bytes.fromhex(golden["frame"]))).receive(rows, times)
    assert rows.obs[0].tolist() == golden["obs"]
    assert rows.obs[1].tolist() == golden["image_2d"]
    assert rows.reward.tolist() == golden["reward"]
    assert rows.terminated.tolist() == golden["terminated"]
    assert rows.truncated.tolist() == golden["truncated"]
    assert tail.rows.tolist() == golden["final_rows"]
    assert tail.obs[0].tolist() == golden["final_obs"]
    assert tail.obs[1].tolist() == golden["final_image"]
    assert tail.infos == {1: {"is_success": True}}
    assert (times.physics_s, times.ticks, times.nodes) == (pytest.approx(10e-6), 8, 55)


def test_golden_step_and_reset():
    tape = Tape()
    link = NativeLink(SPEC, tape)
    link.request_step([np.array(GOLDEN["step"]["z"]).reshape(3, 1), np.array(GOLDEN["step"]["a"])])
    assert tape.sent.hex() == GOLDEN["step"]["frame"]
    told = GOLDEN["reset"]
    frame = protocol.encode_reset(
        told["first_environment"], int(told["base_seed"]), np.array(told["episodes"])
    )
    assert frame.hex() == told["frame"]


@pytest.mark.parametrize("row", GOLDEN["seeds"])
def test_golden_seeds(row):
    assert episode_seed(int(row["base"]), row["environment"], row["episode"], row["agent"]) == int(
        row["seed"]
    )


def test_streams_never_meet():
    # Seeds 0 and 1, 16 environments, 100 episodes, three purposes: 9,600 different streams.
    streams = {
        episode_seed(spawn_seed(seed, purpose), environment, episode)
        for seed in (0, 1)
        for purpose in ("train", "select", "report")
        for environment in range(16)
        for episode in range(100)
    }
    assert len(streams) == 2 * 3 * 16 * 100


@given(st.binary(max_size=300))
def test_rubbish_is_refused_and_nothing_else(data):
    frame = bytearray(data).ljust(52, b"\0")
    tape = Tape(bytes(frame))
    with pytest.raises((ProtocolError, EnvironmentDataError)):
        NativeLink(SPEC, tape).receive(make_rows(), EngineTimes())


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (0, 0xFFFFFFFF, "was announced"),  # length
        (4, 99, "found kind 99"),
        (8, 4, "4 ended episodes of 3"),
        (36, 2**31, "bytes of infos"),
    ],
)
def test_every_count_is_checked(offset, value, words):
    frame = bytearray.fromhex(GOLDEN["transition"]["frame"])
    frame[offset : offset + 4] = value.to_bytes(4, "little")
    with pytest.raises(ProtocolError, match=words):
        NativeLink(SPEC, Tape(bytes(frame))).receive(make_rows(), EngineTimes())


def test_rows_that_do_not_exist_are_refused():
    header = Header(17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    tail = (3).to_bytes(4, "little") + bytes(LAYOUT.tail_bytes(header) - 4)
    with pytest.raises(ProtocolError, match="agent 3 ended; there are 3"):
        LAYOUT.parse_tail(header, tail)


INFO_ACTION = {"move": {"size": 2, "action_type": "continuous"}}
INFO = {
    "type": "env_info",
    "n_agents": 2,
    "observation_space": [{"obs": {"size": [4], "space": "box"}}] * 2,
    "action_space": [{"move": {"size": 2, "action_type": "continuous"}}] * 2,
}


def test_infinity_as_godot_writes_it_is_a_number():
    assert protocol.decode_json(b'{"obs": [1e99999, -1e99999, null]}') == {
        "obs": [float("inf"), float("-inf"), None]
    }


def test_old_games_send_one_space_for_all():
    spec = EnvSpec.from_env_info({**INFO, "observation_space": INFO["observation_space"][0]})
    assert spec.obs == (ObsKey("obs", (4,), np.dtype("f4")),)
    assert spec.policy_names == ("shared_policy",) * 2
    assert not spec.native


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_agents": -1},
        {"n_agents": 10**9},
        {"n_agents": "two"},
        {"observation_space": []},
        {"observation_space": [{"obs": {"size": [4]}}] * 2},
        {"observation_space": [{"obs": {"size": [-4], "space": "box"}}] * 2},
        {"observation_space": [{"obs": {"size": [10**6, 10**6], "space": "box"}}] * 2},
        {"observation_space": [{"obs": {"size": 4, "space": "box"}}] * 2},
        {"observation_space": [{str(i): {"size": [1], "space": "box"} for i in range(300)}] * 2},
        {"action_space": [{"move": {"size": 2, "action_type": "fly"}}] * 2},
        {"action_space": [{"move": {"size": 0, "action_type": "discrete"}}] * 2},
        {"observation_space": [{"obs": {"size": [4], "space": "box", "low": None}}] * 2},
        {"observation_space": [{"obs": {"size": [4], "space": "box", "low": 1, "high": 0}}] * 2},
        {
            "n_agents": 65536,
            "observation_space": {"obs": {"size": [2**24], "space": "box"}},
            "action_space": INFO_ACTION,
        },
        {"agent_policy_names": ["a"]},
        {"agent_policy_names": True},
        *[
            {"godot_parallel": {"protocol": 1} | own}
            for own in (
                {"instances": -1},
                {"instances": 10**9},
                {"instances": "many"},
                {"ticks_per_second": 0},
                {"ticks_per_second": None},
                {"action_repeat": -1},
                {"notes": None},
                {"agents": [1, 2]},
                {"agents": [{"instance": 7}] * 2},
            )
        ],
    ],
)
def test_malformed_descriptions_are_refused(wrong):
    with pytest.raises(ProtocolError):
        EnvSpec.from_env_info({**INFO, **wrong})


def test_agents_that_disagree_are_both_named():
    other = [{"obs": {"size": [4], "space": "box"}}, {"obs": {"size": [5], "space": "box"}}]
    with pytest.raises(EnvironmentDataError, match=r"agent 0 has .*4.*agent 1 has .*5"):
        EnvSpec.from_env_info({**INFO, "observation_space": other})


def test_other_versions_are_refused_with_both_named():
    with pytest.raises(ProtocolVersionError, match="protocol 2, this trainer 1"):
        protocol.check_env_info({**INFO, "godot_parallel": {"protocol": 2}})
    with pytest.raises(ProtocolVersionError, match="does not fit"):
        protocol.check_env_info({"type": "error", "message": "protocol 1 of the trainer does not fit 2"})


def test_observation_space_keeps_the_order_of_keys():
    assert list(SPEC.observation_space.spaces) == ["obs", "image_2d"]
