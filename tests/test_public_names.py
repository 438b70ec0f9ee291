import godot_parallel


def test_public_names_are_exactly_all():
    assert sorted(godot_parallel.__all__) == [
        "Batch",
        "EngineSettings",
        "GodotParallelError",
        "GodotSb3VecEnv",
        "GodotVectorEnv",
        "Plan",
        "TrainConfig",
        "__version__",
        "compare",
        "evaluate",
        "load_runs",
        "plot_curves",
        "run_experiment",
        "train",
        "train_and_eval",
    ]
    for name in godot_parallel.__all__:
        assert getattr(godot_parallel, name) is not None
