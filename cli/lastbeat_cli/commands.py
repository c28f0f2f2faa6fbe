"""The table of commands: every command, the groups of some, and other words for them."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from lastbeat_cli.lazy_group import CommandEntry, LazyGroup

COMMANDS: Final = {
    "exec": CommandEntry("exec_", "Run a command and report it as a run.", "Report a run"),
    "beat": CommandEntry("report:beat", "Report that a run is alive, and its progress.", "Report a run"),
    "fail": CommandEntry("report:fail", "Report that a run failed, and why.", "Report a run"),
    "complete": CommandEntry("report:complete", "Report that a run succeeded.", "Report a run"),
    "preempted": CommandEntry("report:preempted", "Report that a run ended early, with a checkpoint.", "Report a run"),
    "watch": CommandEntry("watch.command", "Watch one run or, without RUN, every run.", "Watch runs"),
    "silence": CommandEntry("silence", "Send no alerts about some runs for a while.", "Watch runs"),
    "ack": CommandEntry("ack", "Say that you look after a run that needs attention.", "Watch runs"),
    "limits": CommandEntry("limits", "Time limits of runs: silence, stalls, start-up.", "Watch runs"),
    "routes": CommandEntry("routes.command", "Which channels an alert goes to, and whom it mentions.", "Watch runs"),
    "archive": CommandEntry("archive", "Hide runs from the fleet; they stay readable.", "Watch runs"),
    "forget": CommandEntry("forget", "Remove the records of runs, or all their files.", "Watch runs"),
    "fleet": CommandEntry("fleet.command", "Every run at a glance, live.", "Look at runs"),
    "show": CommandEntry("run.show", "Everything about one run, and what to do.", "Look at runs"),
    "logs": CommandEntry("run_logs.command", "A run's logs, as they grow.", "Look at runs"),
    "dashboard": CommandEntry("dashboard.command", "The fleet and its runs in a browser.", "Look at runs"),
    "mcp": CommandEntry("assistant", "Let an assistant look at runs (MCP).", "Look at runs"),
    "explain": CommandEntry(
        "explain.command", "Say why a run failed, from its logs, and what to do.", "Understand a failure"
    ),
    "signals": CommandEntry("signals.command", "Signals found in logs; try your own.", "Understand a failure"),
    "report": CommandEntry("commands:report", "Runs compared; causes, goodput, cost.", "Understand a failure"),
    "stop": CommandEntry("stop", "End a run wherever it runs, and record why.", "Stop and restart"),
    "restart": CommandEntry("commands:restart", "Run jobs that are restarted when that helps.", "Stop and restart"),
    "init": CommandEntry("init", "Write .env: where the runs are, and who gets alerts.", "Set up"),
    "check": CommandEntry("commands:check", "Check the set-up, alerts, a node or a run.", "Set up"),
    "deploy": CommandEntry("deploy", "Deploy the Lambda function that watches a bucket.", "Set up"),
    "completion": CommandEntry("completion.command", "Make bash, zsh or fish complete names.", "Set up"),
}
FIRST: Final = ("exec", "watch", "fleet", "show", "logs", "dashboard", "explain", "check")
"""What the first screen of the help lists."""
SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    # What people type first.
    "list": ("fleet",),
    "ls": ("fleet",),
    "mute": ("silence",),
    "ps": ("fleet",),
    "run": ("exec",),
    "serve": ("dashboard",),
    "status": ("fleet",),
    "tail": ("logs", "--follow"),
    "ui": ("dashboard",),
    "version": ("--version",),
    # Commands of their own in earlier versions.
    "backtest": ("report", "backtest"),
    "causes": ("report", "causes"),
    "check-node": ("check", "node"),
    "checkpoints": ("restart", "checkpoints"),
    "cost": ("report", "cost"),
    "doctor": ("check", "setup"),
    "compare": ("report", "compare"),
    "digest": ("report", "digest"),
    "drill": ("restart", "drill"),
    "goodput": ("report", "goodput"),
    "health": ("check", "run"),
    "jobs": ("restart", "jobs"),
    "policy": ("restart", "policy"),
    "schema": ("report", "schema"),
    "simulate-fault": ("restart", "simulate-fault"),
    "supervise": ("restart", "supervise"),
    "sweep": ("watch",),
    "test-alert": ("check", "alert"),
    "timeouts": ("limits", "--learned"),
    "top": ("show", "--live"),
}
"""Other words → the command that does it. The help does not list these."""

check: Final = LazyGroup(
    "check",
    {
        "setup": CommandEntry("doctor", "Settings, credentials, the store, permissions and channels."),
        "alert": CommandEntry("test_alert", "Send a test message to every channel."),
        "node": CommandEntry("check_node", "Whether a job may start on this node."),
        "run": CommandEntry("health", "Health of a training run: GPUs, network, Ray, checkpoints."),
        "cluster": CommandEntry("health", "Health of a Ray cluster, which --at names."),
    },
    help="Check that the set-up, the channels, a node, a run or a Ray cluster works.",
)
report: Final = LazyGroup(
    "report",
    {
        "compare": CommandEntry("compare", "Runs beside each other: configurations, figures and losses."),
        "digest": CommandEntry("digest", "The last day in one message: ends, restarts, what needs attention."),
        "causes": CommandEntry("causes", "Which failures to fix first: hours lost by cause."),
        "goodput": CommandEntry("goodput", "How much of the wall time was productive, and where the rest went."),
        "cost": CommandEntry("cost", "The measured cost of watching."),
        "backtest": CommandEntry("backtest.command", "Replay a restart policy, or learned limits, on a fleet's past."),
        "schema": CommandEntry("schema", "JSON Schema of the documents that programs read or write."),
    },
    help="Compare runs, or show what the past of a fleet was like: failures, productive time, and what watching costs.",
)
restart: Final = LazyGroup(
    "restart",
    {
        "supervise": CommandEntry("supervise.command", "Run a job, and restart it when that helps."),
        "resume": CommandEntry("supervise.resume", "Continue the supervision of a run; 'restart RUN' is the same."),
        "adopt": CommandEntry("supervise.command:adopt", "Supervise a job that runs already."),
        "agent": CommandEntry("supervise.agency", "Supervise every run of the fleet that a launcher runs."),
        "jobs": CommandEntry("jobs", "The supervised runs of the fleet and their supervisors."),
        "policy": CommandEntry("policy.command", "Restart policies: when a job is restarted, and how often."),
        "checkpoints": CommandEntry("checkpoints", "Which checkpoints are complete, and which one a restart takes."),
        "drill": CommandEntry("drill.command", "Test restarts by injecting faults."),
        "simulate-fault": CommandEntry("simulate_fault", "Make a rank of a run hang, die or slow down."),
    },
    help="Restart jobs. 'lastbeat restart RUN' continues the supervision of a run.",
)
_OF_OPTION: Final = {"--adopt": "adopt", "--agent": "agent", "--resume": "resume"}
"""Option of ``restart supervise`` before 0.2 → the command that does the same."""


def meant(arguments: Sequence[str]) -> list[str]:
    """``arguments`` with another word for a command replaced by that command.

    ``help COMMAND`` is ``COMMAND --help``, and ``restart RUN`` continues the supervision of a run.
    """
    if not arguments:
        return []
    word, *rest = arguments
    if word == "help":
        return ["--all"] if rest == ["--all"] else meant([*rest, "--help"])
    words = [*SYNONYMS.get(word, (word,)), *rest]
    if words[0] != "restart" or len(words) == 1 or words[1] in {"-h", "--help"}:
        return words
    if words[1] not in restart.entries:
        return ["restart", "resume", *words[1:]]
    if words[1] != "supervise":
        return words
    own = takewhile(lambda each: each != "--", words[2:])
    said = (_OF_OPTION[name] for each in own if (name := each.partition("=")[0]) in _OF_OPTION)
    return ["restart", next(said, "supervise"), *words[2:]]
