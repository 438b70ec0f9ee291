"""Makes frames.json: frames worked out with struct alone, read by pytest and by the GDScript tests.

python tests/golden/make_frames.py
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

GOLDEN, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def seeds() -> list[dict[str, object]]:
    rows = []
    for base, environment, episode, agent in [
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        (1, 7, 3, 0),
        (MASK, 31, 4294967295, 2),
    ]:
        seed = mix((base + ((environment << 32) + episode + 1) * GOLDEN) & MASK)
        seed = mix((seed + agent * GOLDEN) & MASK) if agent else seed
        rows.append(
            {
                "base": str(base),
                "environment": environment,
                "episode": episode,
                "agent": agent,
                "seed": str(seed),
            }
        )
    return rows


def prefixed(payload: bytes) -> str:
    return (struct.pack("<I", len(payload)) + payload).hex()


def transition() -> dict[str, object]:
    """Three agents; a float key of 2 numbers, an image of 3 bytes; agent 1's episode has ended."""
    obs = [[0.5, -1.0], [2.0, 3.0], [4.0, 5.25]]
    image = [[1, 2, 3], [4, 5, 6], [255, 0, 9]]
    reward, terminated, truncated = [1.0, -10.0, 0.25], [0, 1, 0], [0, 0, 1]
    final_rows, final_obs, final_image = [1, 2], [[7.0, 8.0], [9.0, 10.0]], [[9, 8, 7], [6, 5, 4]]
    info = json.dumps({"1": {"is_success": True}}, separators=(",", ":")).encode()
    flat = lambda rows: [x for row in rows for x in row]  # noqa: E731
    payload = struct.pack("<IIQffffIIII", 17, 2, 123456789012, 10, 20, 30, 40, len(info), 55, 8, 0)
    payload += struct.pack("<6f", *flat(obs)) + bytes(flat(image)) + b"\0" * 3
    payload += struct.pack("<3f", *reward) + bytes(terminated) + b"\0" + bytes(truncated) + b"\0"
    payload += struct.pack("<2I", *final_rows) + struct.pack("<4f", *flat(final_obs))
    payload += bytes(flat(final_image)) + b"\0" * 2 + info
    return {
        "obs": obs, "image_2d": image, "reward": reward, "terminated": terminated, "truncated": truncated,
        "final_rows": final_rows, "final_obs": final_obs, "final_image": final_image, "info": info.decode(),
        "frame": prefixed(payload),
    }  # fmt: skip


def step() -> dict[str, object]:
    """Three agents; actions z (discrete, 3 choices) and a (2 numbers), in this order."""
    z, a = [2, 0, 1], [[0.5, -0.5], [1.0, -1.0], [0.0, 0.125]]
    payload = struct.pack("<I3i6f", 1, *z, *[x for row in a for x in row])
    return {"z": z, "a": a, "frame": prefixed(payload)}


def reset() -> dict[str, object]:
    payload = struct.pack("<IIQI3I", 2, 6, MASK - 1, 3, 0, 5, 4294967295)
    told = {"first_environment": 6, "base_seed": str(MASK - 1), "episodes": [0, 5, 4294967295]}
    return {**told, "frame": prefixed(payload)}


def main() -> None:
    frames = {"seeds": seeds(), "transition": transition(), "step": step(), "reset": reset()}
    text = json.dumps(frames, indent=1) + "\n"
    Path(__file__).with_name("frames.json").write_text(text)


if __name__ == "__main__":
    main()
