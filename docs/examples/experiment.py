"""Two minibatch sizes with the same seeds, compared in pairs (python docs/examples/experiment.py)."""

import sys
from pathlib import Path

from godot_parallel import Plan, run_experiment
from godot_parallel.analysis.compare import table


def main(folder: Path, timesteps: int) -> None:
    """Trains six runs, prints what they say, and leaves everything in folder/minibatches."""
    plan = Plan(
        name="minibatches",
        base={"env": "ball_chase", "instances": 16, "timesteps": timesteps},
        variants={"64": {"batch_size": 64}, "512": {"batch_size": 512}},
        seeds=(0, 1, 2),
        parent=folder,
    )
    outcome = run_experiment(plan, jobs=1)
    if outcome.comparison:
        print(table(outcome.comparison))
        pair = outcome.comparison.pairs[0]
        p, least = pair.sign_flip_p, pair.smallest_p
        print(f"{pair.a} is better by {pair.difference:.1f}; p {p:.2f}, at best {least:.2f}")
    for note in outcome.notes:
        print(note)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "logs/examples"), 100_000)
