"""``lastbeat``: the commands, each imported when it is called."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from lastbeat.model.near_names import did_you_mean, near_names
from lastbeat.model.version import __version__
from lastbeat_cli import frame

_ASKED_BY_SHELL = "_LASTBEAT_COMPLETE"
# Command → its module in lastbeat_cli, one sentence of help, and the heading under which it is listed.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "watch": ("watch.command", "Watch one run, once or until it is over.", "Watch a run"),
    "sweep": ("sweep.command", "Watch every run, once or until stopped.", "Watch a fleet"),
    "silence": ("silence", "Send no alerts about some runs for a while.", "Watch a fleet"),
    "archive": ("archive", "Hide runs from the fleet; they stay readable.", "Watch a fleet"),
    "forget": ("forget", "Remove the records of runs, or all their files.", "Watch a fleet"),
    "limits": ("limits", "Time limits of runs: silence, stalls, start-up.", "Watch a fleet"),
    "timeouts": ("timeouts", "The limits that a run has learned from itself.", "Watch a run"),
    "routes": ("routes.command", "Which channels an alert goes to, and whom it mentions.", "Watch a fleet"),
    "cost": ("cost", "The measured cost of watching.", "Watch a fleet"),
    "fleet": ("fleet.command", "Every run at a glance, live.", "Look at runs"),
    "show": ("run.show", "Everything about one run, and what to do.", "Look at runs"),
    "top": ("run.top", "One run's curves and figures, live.", "Look at runs"),
    "health": ("health", "Health of a training run: GPUs, network, Ray, checkpoints.", "Look at runs"),
    "logs": ("run_logs.command", "A run's logs, as they grow.", "Look at runs"),
    "dashboard": ("dashboard.command", "The fleet and its runs in a browser.", "Look at runs"),
    "explain": ("explain.command", "Say why a run failed, from its logs, and what to do.", "Understand a failure"),
    "causes": ("causes.command", "Which failures to fix first: hours lost by cause.", "Understand a failure"),
    "signals": ("signals.command", "Signals found in logs; try your own.", "Understand a failure"),
    "stop": ("stop", "End a run wherever it runs, and record why.", "Stop a run"),
    "supervise": ("supervise.command", "Run a job, and restart it when that helps.", "Restart jobs"),
    "jobs": ("jobs", "The supervised runs of the fleet and their supervisors.", "Restart jobs"),
    "policy": ("policy.command", "Restart policies: when a job is restarted, and how often.", "Restart jobs"),
    "goodput": (
        "goodput.command",
        "How much of the wall time was productive, and where the rest went.",
        "Restart jobs",
    ),
    "backtest": (
        "backtest.command",
        "Replay a restart policy, or learned limits, on a fleet's past.",
        "Restart jobs",
    ),
    "drill": ("drill.command", "Test restarts by injecting faults.", "Restart jobs"),
    "simulate-fault": ("simulate_fault", "Make a rank of a run hang, die or slow down.", "Restart jobs"),
    "checkpoints": ("checkpoints", "Which checkpoints are complete, and which one a restart takes.", "Restart jobs"),
    "exec": ("exec_", "Run a command and report it as a run.", "Report a run"),
    "beat": ("beat", "Report that a run is alive, and its progress.", "Report a run"),
    "fail": ("fail", "Report that a run failed, and why.", "Report a run"),
    "complete": ("complete", "Report that a run succeeded.", "Report a run"),
    "preempted": ("preempted", "Report that a run ended early, with a checkpoint.", "Report a run"),
    "deploy": ("deploy", "Deploy the Lambda function that watches a bucket.", "Set up"),
    "schema": ("schema", "Print the JSON Schema of a document.", "Set up"),
    "completion": ("completion.command", "Make bash, zsh or fish complete names.", "Set up"),
    "doctor": ("doctor", "Check settings, store, permissions and channels.", "Check the set-up"),
    "check-node": ("check_node", "Check whether a job may start on this node.", "Check the set-up"),
    "test-alert": ("test_alert", "Send a test message to every channel.", "Check the set-up"),
}


_SYNONYMS: dict[str, tuple[str, ...]] = {
    "ack": ("silence",),
    "help": (),
    "list": ("fleet",),
    "ls": ("fleet",),
    "mute": ("silence",),
    "ps": ("fleet",),
    "restart": ("supervise", "--resume"),
    "run": ("exec",),
    "serve": ("dashboard",),
    "status": ("fleet",),
    "tail": ("logs", "--follow"),
    "ui": ("dashboard",),
    "version": ("--version",),
}
"""What people type first → the command that does it. The help does not list these."""


def _meant(arguments: Sequence[str]) -> list[str]:
    """``arguments`` with a synonym for a command replaced by that command.

    ``help COMMAND`` is ``COMMAND --help``.
    """
    if not arguments or arguments[0] not in _SYNONYMS:
        return list(arguments)
    word, *rest = arguments
    if word == "help":
        return [*_meant(rest[:1])[:1], "--help"]
    return [*_SYNONYMS[word], *rest]


class _Commands(click.Group):
    """Lists every command by heading without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's interface
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"lastbeat_cli.{_COMMANDS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            near = did_you_mean(near_names(args[0], _COMMANDS, cutoff=0.7))
            ctx.fail(f"there is no command '{args[0]}'{near and f'. {near}'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for heading in dict.fromkeys(heading for _, _, heading in _COMMANDS.values()):
            with formatter.section(heading):
                formatter.write_dl([(name, what) for name, (_, what, under) in _COMMANDS.items() if under == heading])


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        print(f"lastbeat {__version__}")
        ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=False,
    invoke_without_command=True,
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="The version.")
@click.pass_context
def lastbeat(ctx: click.Context) -> None:
    """Tells people that a long training run has died, why, and what to do next."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """The ``lastbeat`` command; returns its exit status."""
    if _ASKED_BY_SHELL in os.environ:
        from lastbeat_cli.completion.answer import answer  # noqa: PLC0415 - only for completion

        return answer(lastbeat, _COMMANDS)
    return frame.run(lastbeat, _meant(sys.argv[1:] if arguments is None else arguments), "lastbeat")
