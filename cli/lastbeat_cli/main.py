"""``lastbeat``: the commands, each imported when it is called."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from lastbeat_cli import frame

_ASKED_BY_SHELL = "_LASTBEAT_COMPLETE"
# Command → its module in lastbeat_cli, a sentence, and under which wish it is listed.
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "watch": ("watch.command", "Look at one run, once or until it is over.", "Watch a run"),
    "sweep": ("sweep.command", "Look at every run, once or again and again.", "Watch a fleet"),
    "silence": ("silence", "Send no alerts about some runs for a while.", "Watch a fleet"),
    "archive": ("archive", "Leave runs out of the fleet; they stay readable.", "Watch a fleet"),
    "forget": ("forget", "Remove what was recorded of runs, or all of them.", "Watch a fleet"),
    "limits": ("limits", "How long runs may be silent, stand still or take to begin.", "Watch a fleet"),
    "timeouts": ("timeouts", "The limits that a run has learned of itself.", "Watch a run"),
    "routes": ("routes.command", "Which channels an alert goes to, and whom it mentions.", "Watch a fleet"),
    "cost": ("cost", "What watching costs, measured.", "Watch a fleet"),
    "fleet": ("fleet.command", "Every run at a glance, live.", "Look at runs"),
    "show": ("run.show", "All about one run, and what to do.", "Look at runs"),
    "top": ("run.top", "One run's curves and figures, live.", "Look at runs"),
    "health": ("health", "Is a training healthy: GPUs, network, Ray, checkpoints.", "Look at runs"),
    "logs": ("run_logs.command", "A run's logs, as they grow.", "Look at runs"),
    "dashboard": ("dashboard.command", "The fleet and its runs in a browser.", "Look at runs"),
    "explain": ("explain.command", "Say why a run failed, from its logs, and what to do.", "Understand a failure"),
    "causes": ("causes.command", "What to mend first: which causes cost how many hours.", "Understand a failure"),
    "signals": ("signals.command", "What is looked for in logs; try signals of your own.", "Understand a failure"),
    "stop": ("stop", "End a run wherever it runs, and say why.", "Stop a run"),
    "supervise": ("supervise.command", "Run a job, and start it again when that helps.", "Restart jobs"),
    "jobs": ("jobs", "The supervised runs of the fleet, and who looks after them.", "Restart jobs"),
    "policy": ("policy.command", "When a job is started again, and how often.", "Restart jobs"),
    "goodput": ("goodput.command", "How much of the wall time was training, and what the rest was.", "Restart jobs"),
    "backtest": (
        "backtest.command",
        "What a policy, or learned limits, would have made of a fleet's past.",
        "Restart jobs",
    ),
    "drill": ("drill.command", "Try restarts out, with faults on purpose.", "Restart jobs"),
    "simulate-fault": ("simulate_fault", "Have a rank of a run hang, die or be slow, on purpose.", "Restart jobs"),
    "checkpoints": ("checkpoints", "Which checkpoints are complete, and which a restart takes.", "Restart jobs"),
    "exec": ("exec_", "Run a command, report it, and tell how it died.", "Report a run"),
    "beat": ("beat", "Say that a run lives, and how far it is.", "Report a run"),
    "fail": ("fail", "Say that a run failed, and why.", "Report a run"),
    "complete": ("complete", "Say that a run succeeded.", "Report a run"),
    "preempted": ("preempted", "Say that a run ended early, with a checkpoint.", "Report a run"),
    "deploy": ("deploy", "Make the Lambda function that watches a bucket.", "Set up"),
    "schema": ("schema", "Print the JSON Schema of a document.", "Set up"),
    "completion": ("completion.command", "Make bash, zsh or fish complete names.", "Set up"),
    "doctor": ("doctor", "Check settings, store, permissions and channels.", "Check the set-up"),
    "check-node": ("check_node", "May this node be used, before a job starts on it?", "Check the set-up"),
    "test-alert": ("test_alert", "Send a test message to every channel.", "Check the set-up"),
}


class _Commands(click.Group):
    """Lists every command by wish without importing one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's face
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's face
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"lastbeat_cli.{_COMMANDS[cmd_name][0]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            from lastbeat.model.near_names import did_you_mean, near_names  # noqa: PLC0415 - only for who mistyped

            near = did_you_mean(near_names(args[0], _COMMANDS, cutoff=0.7))
            ctx.fail(f"there is no command '{args[0]}'{near and f'. {near}'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for wish in dict.fromkeys(wish for _, _, wish in _COMMANDS.values()):
            with formatter.section(wish):
                formatter.write_dl([(name, what) for name, (_, what, its) in _COMMANDS.items() if its == wish])


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from lastbeat.model.version import __version__  # noqa: PLC0415

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
        from lastbeat_cli.completion.answer import answer  # noqa: PLC0415 - only for who presses Tab

        return answer(lastbeat, _COMMANDS)
    return frame.run(lastbeat, sys.argv[1:] if arguments is None else arguments, "lastbeat")
