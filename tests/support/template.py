"""``infra/template.yaml`` as CloudFormation would get it, with what its functions mean for the values of a test."""

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.checkout import ROOT

TEMPLATE = ROOT / "infra" / "template.yaml"
ACCOUNT, REGION, STACK = "123456789012", "us-east-1", "watchdog"


def source() -> dict[str, Any]:
    """The template as it is written."""
    from samtranslator.yaml_helper import yaml_parse  # noqa: PLC0415 - half a second, which each worker need not wait for

    parsed: dict[str, Any] = yaml_parse(TEMPLATE.read_text(encoding="utf-8"))
    return parsed


@cache
def transformed(**parameters: str) -> dict[str, Any]:
    """After the SAM transform; the code is what ``sam package`` would have put into a bucket."""
    import boto3  # noqa: PLC0415 - as above
    from samtranslator.parser.parser import Parser  # noqa: PLC0415 - as above
    from samtranslator.translator.translator import Translator  # noqa: PLC0415 - as above

    template = source()
    for name in ("Watchdog", "Page"):
        template["Resources"][name]["Properties"]["CodeUri"] = "s3://deployments/lambda.zip"
    # The session says which region it is for; nobody is asked anything.
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name=REGION))
    result: dict[str, Any] = json.loads(json.dumps(translator.translate(template, parameter_values=parameters)))
    return result


@dataclass(frozen=True)
class Stack:
    """The transformed template with ``parameters``, resolved; ``attributes`` is what a resource gives: (name,
    attribute or ``Ref``) → text."""

    template: Mapping[str, Any]
    parameters: Mapping[str, str]
    attributes: Mapping[tuple[str, str], str]

    def of_type(self, kind: str) -> dict[str, Any]:
        """Name → resolved properties."""
        found = {name: each for name, each in self.template["Resources"].items() if each["Type"] == kind}
        return {name: self.resolve(each.get("Properties", {})) for name, each in found.items() if self._there(each)}

    def policies(self, role: str = "WatchdogRole") -> list[dict[str, Any]]:
        """Those of a role, by default the watchdog's."""
        own: list[dict[str, Any]] = self.of_type("AWS::IAM::Role")[role]["Policies"]
        more = self.of_type("AWS::IAM::Policy").values()
        return [*own, *(each for each in more if each["Roles"] == [f"<{role}>"])]

    def resolve(self, value: Any) -> Any:
        """``value`` with every function of CloudFormation carried out."""
        if isinstance(value, list):
            parts = [self.resolve(each) for each in value]
            return [each for each in parts if each is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (function, argument), *_ = value.items()
            if function == "Ref":
                return self._ref(argument)
            if function.startswith("Fn::"):
                return self._function(function, argument)
        named = {key: self.resolve(each) for key, each in value.items()}
        return {key: each for key, each in named.items() if each is not _NO_VALUE}

    def _there(self, resource: Mapping[str, Any]) -> bool:
        return "Condition" not in resource or self._condition({"Condition": resource["Condition"]})

    def _ref(self, name: str) -> Any:
        pseudo = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws", "AWS::StackName": STACK}
        if name == "AWS::NoValue":
            return _NO_VALUE
        if name in pseudo:
            return pseudo[name]
        declared = self.template["Parameters"].get(name)
        if declared is None:
            return self.attributes.get((name, "Ref"), f"<{name}>")
        text = str(self.parameters.get(name, declared.get("Default", "")))
        return text.split(",") if declared["Type"] == "CommaDelimitedList" else text

    def _function(self, function: str, argument: Any) -> Any:
        if function == "Fn::GetAtt":
            name, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
            return self.attributes.get((name, attribute), f"<{name}.{attribute}>")
        if function == "Fn::Sub":
            return re.sub(r"\$\{([\w:]+)\}", lambda found: str(self._ref(found[1])), argument)
        if function == "Fn::FindInMap":
            mapping, key, name = (self.resolve(each) for each in argument)
            return self.template["Mappings"][mapping][key][name]
        if function == "Fn::If":
            condition, yes, no = argument
            return self.resolve(yes if self._condition({"Condition": condition}) else no)
        if function == "Fn::Join":
            return str(argument[0]).join(self.resolve(argument[1]))
        raise NotImplementedError(function)

    def _condition(self, asked: Any) -> bool:
        (function, argument), *_ = asked.items()
        if function == "Condition":
            return self._condition(self.template["Conditions"][argument])
        if function == "Fn::And":
            return all(self._condition(each) for each in argument)
        if function == "Fn::Or":
            return any(self._condition(each) for each in argument)
        if function == "Fn::Not":
            return not self._condition(argument[0])
        if function == "Fn::Equals":
            return bool(self.resolve(argument[0]) == self.resolve(argument[1]))
        raise NotImplementedError(function)


_NO_VALUE = object()


@dataclass(frozen=True)
class Call:
    """One thing that was asked of AWS: ``s3:GetObject`` of an ARN; ``prefix`` of a listing."""

    action: str
    resource: str
    prefix: str | None = None


@dataclass(frozen=True)
class Permission:
    """One action on one pattern of resources, as a policy allows it."""

    action: str
    resource: str
    prefixes: tuple[str, ...] = ()

    def allows(self, call: Call) -> bool:
        return (
            fnmatch.fnmatchcase(call.action, self.action)
            and fnmatch.fnmatchcase(call.resource, self.resource)
            and (
                call.prefix is None
                or not self.prefixes
                or any(fnmatch.fnmatchcase(call.prefix, p) for p in self.prefixes)
            )
        )


def permissions(policies: list[dict[str, Any]]) -> Iterator[Permission]:
    """What the policies of a role allow; a statement of another kind is not understood, and so fails."""
    for policy in policies:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            condition = dict(statement.get("Condition", {}))
            prefixes = condition.pop("StringLikeIfExists", {}).get("s3:prefix", [])
            assert condition == {}
            for action in _listed(statement["Action"]):
                for resource in _listed(statement["Resource"]):
                    yield Permission(action, resource, tuple(prefixes))


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]
