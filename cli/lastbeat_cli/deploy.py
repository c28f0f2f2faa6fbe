"""``deploy``: deploy the watchdog as a Lambda function, through AWS SAM.

The zip is built from this checkout, or from an installed lastbeat: a wheel holds ``infra/`` and ``lambda/`` beside this
module (pyproject.toml puts them there). They are copied into a permanent folder in the layout of a checkout, because
SAM stores the answers to ``--guided`` there.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import click
from botocore.exceptions import BotoCoreError

import lastbeat
from lastbeat.alerts.slack_bot import SLACK_BOT_TOKEN, SLACK_CHANNEL
from lastbeat.explain.signals import compiling
from lastbeat.settings import Settings, SettingsError, table
from lastbeat.stores import s3
from lastbeat.stores.s3_credentials import keys_in
from lastbeat.stores.s3_profiles import session
from lastbeat_cli import exits, options, values

WHAT = "What to deploy"
EPILOG = """\
Exit status:
  0  it was deployed
  2  building or deploying failed; the output above says why
  3  something is missing here, or wrong settings or arguments

Example:
  lastbeat deploy --guided --root s3://my-bucket/training-runs
"""
MADE = """\
This makes, in a CloudFormation stack called {stack}:
  - a Lambda function ({architecture}, {runtime}) that watches s3://{bucket}/{prefix}, and its schedule
  - a rule that calls it when a run's _error, _complete or _preempted appears
  - an SNS topic for the alerts, a key that encrypts it, and queues for what is split and what gets lost
  - alarms (no pass could see, errors, throttles, lost messages, failed alerts), a log and a dashboard
It changes no setting of the bucket. docs/deploy.md explains each parameter, what it costs and how to remove it.
"""
NOTIFY = """\
The rule needs the bucket's notifications to EventBridge, which a stack cannot turn on for a bucket that is there
already. If the bucket has no other notifications (the command replaces them all):
  {command}
"""
UNHEARD = """\
The alarms of the watchdog itself go to the topic, and Slack does not get them: give --set AlertEmail=… or
--set PingUrl=…, or subscribe to the topic, so that people hear of a watchdog that has stopped.
"""
PAGED = """\
With --page there is a second function, which may read what people see of the runs and write {writes}, and an address
that everyone can reach and the token opens. SAM prints it as PageUrl: set LASTBEAT_DASHBOARD_URL to it, so that alerts
link there. Without --page a later deployment keeps the page; --set PageToken= --set PageOperateToken= takes it away.
"""
ANSWERS = """\
Slack's requests are answered at PageUrl with slack behind it; docs/alerts.md says where to enter that.
"""
UNGUARDED = (
    "--page needs {token}, for its address is open to everyone: set LASTBEAT_DASHBOARD_TOKEN to what "
    "'openssl rand -hex 24' prints"
)
_SECRET = re.compile(
    r"^(SlackWebhookUrl|PagerDutyKey|PingUrl|Page(Operate)?Token|SlackBotToken|SlackSigningSecret)=.*", re.DOTALL
)
"""Parameters that are masked when printed, as NoEcho in the template."""
_STACK = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
_PARAMETER = re.compile(r"[A-Za-z]+=[^\0\n]*")
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_PACKAGED: Final = Path(__file__).resolve().parent / "deployed"
_INFRA: Final = ("template.yaml", "package.sh", "bundle.py", "requirements.txt", "requirements-fast.txt")


@click.command("deploy", cls=options.Grouped, epilog=EPILOG)
@options.option("--guided", "Let SAM ask for each parameter, and remember the answers.", WHAT)
@options.option("--stack NAME", "Name of the stack [lastbeat].", WHAT, default="lastbeat")
@options.option("--architecture A", "arm64 or x86_64 [arm64].", WHAT, default="arm64")
@options.option("--runtime R", "Lambda's Python [python3.13].", WHAT, default="python3.13")
@options.option("--set NAME=VALUE", "A parameter; repeatable.", WHAT, name="parameters", multiple=True)
@options.option(
    "--signals NAMES-OR-PATHS",
    "Signals to find in logs: built-in catalogues, and your own files, which are compiled into the zip.",
    WHAT,
    name="own",
)
@options.option(
    "--page [operate]",
    "Also serve the page of the fleet, at an address of its own that LASTBEAT_DASHBOARD_TOKEN opens; 'operate': people "
    "act on runs there, and from Slack.",
    WHAT,
    name="right",
    is_flag=False,
    flag_value="view",
    type=click.Choice(["view", "operate"]),
)
@options.option("--dry-run", "Run nothing; print the commands.")
@options.place
@options.verbose
def command(  # noqa: PLR0913 - one for each option
    *,
    guided: bool,
    stack: str,
    architecture: str,
    runtime: str,
    parameters: Sequence[str],
    own: str | None,
    right: Literal["view", "operate"] | None,
    dry_run: bool,
    **given: str | None,
) -> int:
    """Build the Lambda function's zip and deploy it with its schedule, topic, queues and alarms.

    Prints first what will be created. Needs the AWS SAM command line, and credentials with permission to create it.
    """
    settings = _read(stack, parameters, own, given)
    page = _page(right, settings)
    root, sources = settings.root, _sources(settings)
    infra = sources / "infra"
    if root.scheme != s3.SCHEME:
        raise SettingsError(["a Lambda function watches a bucket of S3: give --bucket, or set MONITORING_BUCKET"])
    if not root.prefix:
        raise SettingsError(["the template wants a folder in the bucket; name it in MONITORING_PREFIX"])
    prefix = root.prefix
    print(MADE.format(stack=stack, architecture=architecture, runtime=runtime, bucket=root.place, prefix=prefix))
    notify = ["aws", "s3api", "put-bucket-notification-configuration", "--bucket", root.place]
    notify += ["--notification-configuration", '{"EventBridgeConfiguration": {}}']
    print(NOTIFY.format(command=shlex.join(notify)))
    if not guided and not any(each.startswith(("AlertEmail=", "PingUrl=")) for each in parameters):
        print(UNHEARD)
    overrides = [f"Bucket={root.place}", f"Prefix={prefix}", f"Architecture={architecture}", f"Runtime={runtime}"]
    # Run by bash, because an installed file may lack the executable bit.
    package = ["bash", str(infra / "package.sh"), "--architecture", architecture, "--runtime", runtime]
    if page:
        print(PAGED.format(writes="what they do there" if right == "operate" else "nothing"))
        overrides += page
    if any(each.startswith("SlackSigningSecret=") for each in page):
        print(ANSWERS)
    if own is not None:
        overrides.append(f"Signals={_names(own)}")
        package += ["--signals", own]
    sam = ["sam", "deploy", "--template-file", str(infra / "template.yaml"), "--stack-name", stack]
    sam += ["--region", settings[s3.MONITORING_REGION], "--capabilities", "CAPABILITY_IAM", "--resolve-s3"]
    # An empty change set is not an error.
    sam += ["--no-fail-on-empty-changeset"]
    sam += [*(["--guided"] if guided else []), "--parameter-overrides", *overrides, *parameters]
    if dry_run:
        print("Without --dry-run these are run:")
        for each in (package, sam):
            print(f"  {_shown(each)}")
        return exits.OK
    _check_tools(settings)
    _lay_out(sources)
    return _run(package) or _run(sam)


def _page(right: str | None, settings: Settings) -> list[str]:
    """The parameters of a page with this ``right``, none without one. Raises :class:`SettingsError`."""
    if right is None:
        return []
    tokens = settings[table.DASHBOARD_TOKEN] or table.DashboardTokens()
    if right == "view" and any(tokens):
        # The token that opens it for viewers is enough; an earlier deployment may have given another one.
        return ["PageOperateToken=", f"PageToken={tokens.view or tokens.operate}"]
    if not tokens.operate:
        raise SettingsError([UNGUARDED.format(token="a token" if right == "view" else "a token to operate")])
    app, channel = settings[SLACK_BOT_TOKEN], settings[SLACK_CHANNEL]
    page = [f"PageToken={tokens.view}", f"PageOperateToken={tokens.operate}"]
    if app is None or not app.signing_secret or not channel:
        # An earlier deployment may have a bot, whose alerts must go on.
        return page
    slack = (f"SlackBotToken={app.token}", f"SlackSigningSecret={app.signing_secret}", f"SlackChannel={channel}")
    return [*page, *slack]


def _read(stack: str, parameters: Sequence[str], own: str | None, given: dict[str, str | None]) -> Settings:
    faults = []
    if own is not None and any(each.startswith("Signals=") for each in parameters):
        faults.append("--signals and --set Signals=… say the same thing; give --signals alone")
    if not _STACK.fullmatch(stack):
        faults.append(f"--stack={stack[:80]!r} is no name of a stack; use letters, digits and hyphens")
    faults += [
        f"--set {each[:80]!r} is no parameter; use for example --set StaleMinutes=15"
        for each in parameters
        if not _PARAMETER.fullmatch(each)
    ]
    return values.settings(given, faults)


def _sources(settings: Settings) -> Path:
    """The folder with ``infra/``; for an installed lastbeat, call :func:`_lay_out` first. Raises
    :class:`SettingsError`."""
    if (_CHECKOUT / "infra" / "template.yaml").is_file():
        return _CHECKOUT
    if settings.state_dir is None:
        raise SettingsError(["there is no folder to build in; set LASTBEAT_STATE_DIR"])
    return settings.state_dir / "deploy"


def _lay_out(folder: Path) -> None:
    """Copy the files of an installed lastbeat to ``folder``, replacing earlier ones. Leaves a checkout alone. Raises
    :class:`SettingsError`."""
    if folder == _CHECKOUT:
        return
    try:
        (folder / "infra").mkdir(parents=True, exist_ok=True)
        for name in _INFRA:
            shutil.copyfile(_PACKAGED / "infra" / name, folder / "infra" / name)
        shutil.copyfile(_PACKAGED / "LICENSE", folder / "LICENSE")
        _renew(_PACKAGED / "lambda", folder / "lambda")
        _renew(Path(lastbeat.__file__).resolve().parent, folder / "core" / "lastbeat")
    except OSError as fault:
        why = f"{os.strerror(fault.errno)}: {fault.filename}" if fault.errno else str(fault)
        raise SettingsError([f"what is deployed cannot be put together in {folder}: {why}"]) from None


def _renew(source: Path, target: Path) -> None:
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _names(own: str) -> str:
    """LASTBEAT_SIGNALS for a function whose zip holds the catalogues that ``own`` names."""
    try:
        return compiling.compile_user_catalogues(own).setting
    except ValueError as fault:
        raise SettingsError(str(fault).replace("LASTBEAT_SIGNALS: ", "--signals: ").splitlines()) from None


def _check_tools(settings: Settings) -> None:
    """Raise :class:`SettingsError` with every tool and credential that is missing here."""
    missing = []
    if shutil.which("sam") is None:
        missing.append("there is no command sam; pipx install aws-sam-cli, or brew install aws-sam-cli")
    if not _credentials(settings):
        missing.append("there are no AWS credentials; run aws sso login, or set AWS_PROFILE")
    if missing:
        raise SettingsError(missing)


def _credentials(settings: Settings) -> bool:
    try:
        return keys_in(settings.environ) is not None or session(settings.environ).get_credentials() is not None
    except BotoCoreError:
        return False


def _shown(words: Sequence[str]) -> str:
    """A command line with secrets masked."""
    return shlex.join(_SECRET.sub(r"\1=***", word) for word in words)


def _run(words: Sequence[str]) -> int:
    print(f"+ {_shown(words)}", flush=True)
    # This interpreter is new enough and has the packages that --signals needs; PYTHON may name another.
    done = subprocess.run(list(words), env={"PYTHON": sys.executable} | os.environ, check=False)  # noqa: S603 - our own list
    return exits.OK if done.returncode == 0 else exits.CRITICAL
