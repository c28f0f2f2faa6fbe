# ruff: noqa: E501 - lines of logs are as long as they are
"""What programs and launchers print, for logs made up in tests."""

STEPS = "".join(f"step {n}/1000 loss {3 - n / 100:.3f} lr 3.0e-04\n" for n in range(10, 60, 10))


MEGATRON = "".join(
    f" [2026-03-01 10:0{n}:00] iteration {n}0/ 5000 | consumed samples: {n}000 | lm loss: 2.{n}E+00 | grad norm: 0.4 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    for n in range(1, 5)
)


CHILD_FAILED = """\
E0301 10:05:13.883000 89244 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 89289) of binary: /opt/venv/bin/python
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/run.py", line 919, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
"""


TORCH = "/opt/venv/lib/python3.10/site-packages/torch"


def raised(
    last: str, file: str = "/home/u/train.py", code: str = "run(batch)", *, rank: int | None = None, steps: bool = True
) -> str:
    """A log that ends in an exception that was raised in ``file``."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/u/train.py", line 120, in <module>',
        "    main()",
        f'  File "{file}", line 77, in step',
        f"    {code}",
        *last.splitlines(),
    ]
    prefix = f"[rank{rank}]: " if rank is not None else ""
    return (STEPS if steps else "") + "".join(f"{prefix}{line}\n" for line in lines)


def ranks(first: int, last: int) -> str:
    """Steps as eight ranks print them."""
    return "".join(
        f"2026-03-01 10:00:{n:02d},{rank}00 [INFO] [rank{rank}] step {n} loss {3 - n / 100:.3f}\n"
        for n in range(first, last)
        for rank in range(8)
    )


def traceback(last: str, rank: int | None = None) -> str:
    """A traceback that nobody caught."""
    lines = ("Traceback (most recent call last):", '  File "/home/u/train.py", line 3, in <module>', "    main()", last)
    prefix = f"[rank{rank}]: " if rank is not None else ""
    return "".join(f"{prefix}{line}\n" for line in lines)
