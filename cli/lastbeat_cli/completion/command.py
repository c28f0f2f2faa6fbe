"""``completion``: print the script that makes a shell complete commands, options, runs and files."""

import click

from lastbeat_cli import exits, options
from lastbeat_cli.completion.scripts import SCRIPTS

EPILOG = """\
\b
To enable it in every new shell:
  bash  echo 'eval "$(lastbeat completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(lastbeat completion zsh)"' >> ~/.zshrc     (after compinit)
  fish  lastbeat completion fish > ~/.config/fish/completions/lastbeat.fish

Run ids are looked up where --root, --bucket or the settings point, for at most a second.
"""


@click.command("completion", cls=options.Grouped, epilog=EPILOG)
@click.argument("shell", type=click.Choice(sorted(SCRIPTS)))
def command(*, shell: str) -> int:
    """Print the script that makes SHELL complete lastbeat's commands, options and run ids."""
    print(SCRIPTS[shell], end="")
    return exits.OK
