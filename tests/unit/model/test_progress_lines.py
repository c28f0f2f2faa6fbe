"""What is read from the lines that training programs print."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.progress_lines import LINE_LIMIT, Progress

MEGATRON = (
    " [2024-03-01 10:00:00] iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration "
    "(ms): 512.3 | learning rate: 1.500E-04 | global batch size:   256 | lm loss: 2.500000E+00 | loss scale: 65536.0 "
    "| grad norm: 0.815 | number of skipped iterations:   0 |"
)
BAR = "{:3.0f}%|██▌       | {}/{} [00:12<01:30,  4.85it/s]"
ROWS = [
    pytest.param([MEGATRON], (100, 500_000, 2.5, 1.5e-4), id="Megatron"),
    pytest.param([BAR.format(12, 60, 500), "{'loss': 2.5, 'grad_norm': 1.1, 'learning_rate': 5e-05, 'epoch': 0.1}"],
                 (60, 500, 2.5, 5e-5), id="Hugging Face Trainer: the step from its bar, the rest from its dict"),
    pytest.param(["{'loss': '2.5', 'learning_rate': '5e-05', 'epoch': '0.1'}", BAR.format(12, 60, 500)],
                 (60, 500, 2.5, 5e-5), id="Hugging Face Trainer: in the other order, with its numbers as text"),
    pytest.param([BAR.format(12, 60, 500), "{'loss': 2.5}", BAR.format(50, 4, 8), "{'eval_loss': 9.0, 'epoch': 0.2}"],
                 (60, 500, 2.5, None), id="an evaluation's bar and loss are not training's"),
    pytest.param([BAR.format(100, 9000, 9000), BAR.format(12, 60, 500), "{'loss': 2.5}"], (60, 500, 2.5, None),
                 id="a bar that was full before training began gives way"),
    pytest.param(["Map:  45%|████▌     | 450/1000 [00:01<00:01, 400 examples/s]"], None,
                 id="a tokenisation is no training"),
    pytest.param(["Epoch 0:  50%|█████     | 8/16 [00:00<00:00, 290.39it/s, v_num=0, train_loss=2.300]"],
                 (8, None, 2.3, None), id="Lightning"),
    pytest.param(
        [
            "Epoch 0: 100%|██████████| 16/16 [00:00<00:00, 290.39it/s, v_num=0, train_loss=2.300]",
            "Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 99.0it/s]",
            "Epoch 1:  25%|██▌       | 4/16 [00:00<00:00, 290.39it/s, v_num=0, train_loss_step=1.9]",
        ],
        (20, None, 1.9, None),
        id="Lightning counts anew in each epoch, and the epochs are added up",
    ),
    pytest.param(["Steps:   5%|▌         | 50/1000 [00:30<09:30,  1.67it/s, lr=1e-5, step_loss=0.103]"],
                 (50, 1000, 0.103, 1e-5), id="a bar with a label that says what it counts"),
    pytest.param(["Training epoch 0, iteration 8/99 | lr: 1e-04 | global_step: 108 | reduced_train_loss: 2.5 | so"],
                 (108, None, 2.5, 1e-4), id="NeMo: the step of all epochs"),
    pytest.param(
        [
            "[2024-01-01 00:00:00,000] [INFO] [log_dist] [Rank 0] step=10, skipped=1, lr=[0.001], mom=[(0.9, 0.99)]",
        ],
        (10, None, None, 1e-3),
        id="DeepSpeed: the step without any loss",
    ),
    pytest.param(
        ["[titan] 2024-01-01 00:00:00,000 - INFO - step: 80  loss:  2.5000  grad_norm: 1.0  tps: 57,729  mfu: 7.9%"],
        (80, None, 2.5, None),
        id="torchtitan",
    ),
    pytest.param(["1|80|Loss: 2.5:   5%|▌         | 80/1600 [00:30<09:30,  1.67it/s]"], (80, None, 2.5, None),
                 id="torchtune"),
    pytest.param(["Epoch 1 | iter 80 step 20 | loss train: 2.500, val: n/a | iter time: 150.00 ms (step)"],
                 (20, None, 2.5, None), id="litgpt"),
    pytest.param(
        ["completed step: 80, seconds: 1.250, TFLOP/s/device: 100.1, Tokens/s/device: 3276.8, total: 6, loss: 2.5"],
        (80, None, 2.5, None),
        id="MaxText",
    ),
    pytest.param(["[batch=80/4800]:", "\t Train loss/train/total: 2.5"], (80, 4800, 2.5, None),
                 id="Composer, over two lines"),
    pytest.param(
        [
            "2024-01-01 INFO [step=80/739328,epoch=0]",
            "    train/CrossEntropyLoss=2.5",
            "    optim/learning_rate_group0=0.1",
        ],
        (80, 739_328, 2.5, None),
        id="OLMo, over several lines",
    ),
    pytest.param(['{"epoch": 1, "update": 0.1, "loss": "2.5", "ppl": "12.18", "num_updates": "80", "lr": "1e-04"}'],
                 (80, None, 2.5, 1e-4), id="fairseq"),
    pytest.param(
        [
            "mmengine - INFO - Epoch(train) [1][100/200]  lr: 1e-02  eta: 1:00:00  time: 0.5  loss: 2.6",
            "mmengine - INFO - Epoch(train) [2][ 50/200]  lr: 1e-02  eta: 1:00:00  time: 0.5  loss: 2.5",
        ],
        (250, None, 2.5, 1e-2),
        id="OpenMMLab: counted anew in each epoch",
    ),
    pytest.param(["Epoch: [0]  [  50/1251]  eta: 0:10:00  loss: 2.5 (2.6)  time: 0.5"], (50, None, 2.5, None),
                 id="torchvision"),
    pytest.param(["mmseg - INFO - Iter [50/160000]\tlr: 1e-02, eta: 1:00:00, loss: 2.5"], (50, 160_000, 2.5, 1e-2),
                 id="mmcv"),
    pytest.param(["eta: 0:12:00  iter: 19  total_loss: 2.5  loss_cls: 0.1  lr: 0.001"], (19, None, 2.5, 1e-3),
                 id="Detectron2"),
    pytest.param(["iter 100: loss 2.5000, time 25.01ms, mfu 3.10%"], (100, None, 2.5, None), id="nanoGPT"),
    pytest.param(["step 250: train loss 2.6000, val loss 2.7000"], (250, None, 2.6, None),
                 id="nanoGPT with its evaluation"),
    pytest.param(["step 100/1000 loss 2.5"], (100, 1000, 2.5, None), id="step n/N loss x"),
    pytest.param(["step=100 loss=2.5 lr=3e-4"], (100, None, 2.5, 3e-4), id="step=n loss=x"),
    pytest.param(["[Step 100 of 1000] Loss: 2.5"], (100, 1000, 2.5, None), id="n of N"),
    pytest.param(['{"step": 100, "loss": 2.5, "lr": 0.1}'], (100, None, 2.5, 0.1), id="a line of JSON"),
    pytest.param(["global_step 7 | train/loss 0.5"], (7, None, 0.5, None), id="names with slashes"),
    pytest.param(["Epoch [1/5], Step [600/600], Loss: 0.3", "Epoch [2/5], Step [100/600], Loss: 0.25"],
                 (700, None, 0.25, None), id="a tutorial's line, over two epochs"),
    pytest.param(["step 9 loss nan"], (9, None, math.nan, None), id="a loss that is not a number"),
    pytest.param(["step 9 loss -inf"], (9, None, -math.inf, None), id="a loss that is infinite"),
    pytest.param(["Step 1/8: installing packages"], None, id="the steps of a set-up script"),
    pytest.param(["val loss 2.0", "loss scale: 65536", "loss 5% better", "no loss"], None, id="other losses"),
    pytest.param(["loss 2.5"], None, id="a loss without any step"),
    pytest.param(["step 1.5 loss 2.5", "step 100s loss 2.5", "max_steps: 100 loss 2"], None, id="other steps"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), ROWS)
def test_progress(lines: Sequence[str], expected: tuple[int, int | None, float, float | None] | None) -> None:
    progress = Progress()
    said = [progress.read(line) for line in lines]
    if expected is None:
        assert not any(said)
        assert progress.step is None
        return
    assert any(said)
    found = (progress.step, progress.total_steps, progress.loss, progress.learning_rate)
    assert repr(found) == repr(expected), "nan is not equal to itself"


SPEEDS = [
    pytest.param([MEGATRON], (1000 / 512.3, "it/s"),
                 id="Megatron without its throughput: from the time of an iteration"),
    pytest.param([MEGATRON.replace("| learning rate", "| throughput per GPU (TFLOP/s/GPU): 401.1 | learning rate")],
                 (401.1, "TFLOP/s/GPU"), id="Megatron with --log-throughput"),
    pytest.param([BAR.format(12, 60, 500)], (4.85, "it/s"), id="a bar"),
    pytest.param([BAR.format(12, 60, 500).replace("4.85it/s", "2.00s/it")], (0.5, "it/s"), id="a bar of slow steps"),
    pytest.param([BAR.format(0, 0, 500).replace("4.85it/s", "?it/s")], (None, ""), id="a bar that does not know yet"),
    pytest.param(["iter 100: loss 2.5, time 25.00ms, mfu 3.10%"], (40.0, "it/s"), id="nanoGPT"),
    pytest.param(
        [
            "[Rank 0] step=10, skipped=0, lr=[0.1]",
            "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=58.7, CurrSamplesPerSec=61.5",
        ],
        (61.5, "samples/s"),
        id="DeepSpeed",
    ),
    pytest.param(["step: 80  loss:  2.5  tps: 57,729  tflops: 78.76"], (57_729.0, "tokens/s"), id="torchtitan"),
    pytest.param(["completed step: 5, seconds: 1.25, TFLOP/s/device: 100.1, Tokens/s/device: 3276.8, loss: 2.5"],
                 (3276.8, "tokens/s/device"), id="MaxText"),
    pytest.param(["step 5 loss 2.5 samples/s 31.5"], (31.5, "samples/s"), id="everybody's own"),
    pytest.param(["step:12 - actor/entropy:0.38 - perf/throughput:911.1"], (911.1, "tokens/s/GPU"), id="verl"),
    pytest.param(["step 5 loss 2.5 | 12,345 tokens/s"], (12345, "tokens/s"), id="the number before its unit"),
    pytest.param(["step 5 loss 2.5, tokens/s: 8123.5"], (8123.5, "tokens/s"), id="the number behind its unit"),
    pytest.param(["Batch [20-40] Speed: 9709.54 samples/sec accuracy=0.1"], (9709.54, "samples/s"), id="MXNet"),
    pytest.param(["step 5 loss 2.5", "5321 tok/s"], (5321, "tokens/s"), id="on a line of its own"),
    pytest.param(["step 5 loss 2.5", "Avg prompt throughput: 120.0 tokens/s, Avg generation throughput: 30.0 tokens/s"],
                 (None, ""), id="an inference server's is not training's"),
    pytest.param(["step 5 loss 2.5 samples/s 0"], (None, ""), id="nothing in a second is no throughput"),
    pytest.param(["step 5 loss 2.5 took some time"], (None, ""), id="a word of it alone"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), SPEEDS)
def test_throughput(lines: Sequence[str], expected: tuple[float | None, str]) -> None:
    progress = Progress()
    for line in lines:
        progress.read(line)
    assert progress.throughput == (pytest.approx(expected[0]) if expected[0] is not None else None)
    assert progress.throughput_unit == expected[1]


def test_who_names_epochs_alone_comes_forward_too() -> None:
    progress = Progress()
    before = progress.position
    progress.read("epoch 3 loss 0.7")
    first = progress.position
    progress.read("epoch 4 loss 0.6")
    assert before < first < progress.position


WORDS = st.sampled_from(
    [
        *(
            "step",
            "iteration",
            "loss",
            "lr",
            "epoch",
            " ",
            "=",
            ":",
            "/",
            "[",
            "|",
            "%|",
            "100",
            "1e9",
            "nan",
            "\t",
            "█",
        ),
        *("global_step=", "[batch=", "]", "time ", "ms", "it/s", "tps:", ",", "İ"),
    ]
)


@given(st.lists(WORDS | st.text(max_size=5), max_size=60).map("".join))
def test_no_line_raises_or_gives_what_is_no_number(line: str) -> None:
    progress = Progress()
    progress.read(line)
    progress.read(line)
    assert progress.step is None or progress.step >= 0
    assert progress.throughput is None or progress.throughput > 0


HOSTILE = [
    pytest.param("step" + " " * 1_000_000 + "loss", id="a gap"),
    pytest.param("loss " * 200_000, id="the same word again and again"),
    pytest.param("9" * 1_000_000 + " loss", id="digits"),
    pytest.param("|" * 500_000 + "%|" * 250_000, id="bars"),
    pytest.param("iteration " + "1" * 14 + "/" + " " * 500_000, id="half an iteration"),
    pytest.param("epoch[" * 100_000 + "loss", id="brackets"),
]


@pytest.mark.parametrize("line", HOSTILE)
def test_a_hostile_line_is_read_to_its_limit_only(line: str) -> None:
    # A pattern that went back and forth over it would not come to an end here.
    whole, start = Progress(), Progress()
    assert whole.read(line) == start.read(line[:LINE_LIMIT])
    assert whole == start
