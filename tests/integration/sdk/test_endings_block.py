"""How a ``with lastbeat.run(...)`` block ends, and what the watchdog then says."""

from support.training import Site


def test_an_exception_is_told_before_it_goes_on_unchanged(directory: Site) -> None:
    script = """\
    import lastbeat
    from pathlib import Path
    class Broken(Exception):
        pass
    thrown = Broken("bad", 7)
    try:
        try:
            with lastbeat.run("run-1") as run:
                run.step(1)
                try:
                    {}["missing"]
                except KeyError as error:
                    raise thrown from error
        finally:
            # On its way out of the block the exception meets this first.
            assert (Path(run_root) / "run-1" / "_error").exists()
    except Broken as caught:
        assert caught is thrown and caught.args == ("bad", 7) and isinstance(caught.__cause__, KeyError)
        assert caught.__traceback__.tb_next is None
        print("unchanged")
    """.replace("run_root", repr(directory.root))
    trained = directory.train(script)
    assert (trained.exit, trained.said) == (0, "unchanged\n")
    error = directory.read("_error") or ""
    assert error.startswith("Broken: ('bad', 7)\n")
    assert "KeyError: 'missing'" in error
    assert "The above exception was the direct cause" in error
    found = directory.look()
    assert (found["status"], found["cause"]) == ("FAILED", "exception")


def test_a_block_inside_a_block_is_another_run(directory: Site) -> None:
    script = """\
    import lastbeat
    with lastbeat.run("outer") as outer:
        outer.step(1)
        try:
            with lastbeat.run("inner") as inner:
                inner.step(5)
                raise RuntimeError("inner only")
        except RuntimeError:
            pass
        outer.step(2)
    """
    assert directory.train(script).exit == 0
    assert directory.look("outer")["status"] == "SUCCEEDED"
    inner = directory.look("inner")
    assert (inner["status"], inner["reason"]) == ("FAILED", "RuntimeError: inner only")


def test_settings_that_do_not_say_where_runs_lie_leave_training_alone(directory: Site) -> None:
    script = 'import lastbeat\nwith lastbeat.run("run-1") as run:\n    run.step(1)\n'
    trained = directory.train(script, MONITORING_ROOT="s3://x")
    assert trained.exit == 0
    assert trained.said.startswith("lastbeat is off, nothing watches this training: MONITORING_ROOT='s3://x'")


def test_settings_that_make_no_store_do_not_hold_up_the_end(directory: Site) -> None:
    script = """
        import lastbeat, time
        with lastbeat.run("run-1", root="s3://a-bucket") as run:
            run.step(1)
        assert time.monotonic() < run.end_deadline, "it was waited for to the last second"
    """
    directory.folder.mkdir(parents=True, exist_ok=True)
    (directory.folder / "aws.ini").write_text("[default]\nendpoint_url = here\n")
    trained = directory.train(script, AWS_CONFIG_FILE="aws.ini")
    assert trained.exit == 0, trained.said
    assert "endpoint_url is no web address" in trained.said
    assert "lastbeat gives up, and the end of this run is not written" in trained.said
