"""``schema``: JSON Schema of the documents that other programs write or read."""

import json

import click

from lastbeat.views import schemas
from lastbeat_cli import exits, options

DOCUMENTS = {
    "metadata": "metadata.json, a run's liveness heartbeat",
    "progress": "progress.json, its progress heartbeat",
    "record": "_watchdog.json, what the watchdog keeps of a run",
    "catalogue": "a catalogue of log signals of your own",
    "limits": "_watchdog/limits.json, the limits of a fleet",
    "answer": "what most commands print with --json",
}
_EPILOG = """\
Documents:
{documents}

Example, for an editor that knows the YAML language server:
  lastbeat report schema catalogue > catalogue.schema.json
  # yaml-language-server: $schema=catalogue.schema.json     (first line of the catalogue)
""".format(documents="\n".join(f"  {name:<10} {what}" for name, what in DOCUMENTS.items()))


@click.command("schema", cls=options.Grouped, epilog=_EPILOG)
@click.argument("document", type=click.Choice(list(DOCUMENTS)))
def command(*, document: str) -> int:
    """Print the JSON Schema (draft 2020-12) of DOCUMENT."""
    print(json.dumps(schemas.schema(document), indent=2))
    return exits.OK
