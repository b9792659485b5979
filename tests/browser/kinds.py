"""Makes a log with an event of every kind that Inspect knows, by Inspect's own classes, every field of each filled."""

import dataclasses
import types
import typing
from datetime import datetime, timezone
from pathlib import Path

from inspect_ai.event import Event
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalPlan, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser, ModelOutput
from inspect_ai.tool import ToolCall
from pydantic import AwareDatetime, BaseModel

START = datetime(2026, 11, 3, 9, 0, tzinfo=timezone.utc)
DEPTH = 6


def fill(kind, name: str, depth: int = 0):
    """A value of a type, with the name in every text of it."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return fill(of[0], name, depth)
    if kind is type(None):
        return None
    if origin is typing.Literal:
        return of[0]
    if origin in (typing.Union, types.UnionType):
        values = [one for one in of if one is not type(None)]
        return fill(next((one for one in values if isinstance(one, type) and issubclass(one, BaseModel)), values[0]), name, depth)
    if origin is tuple:
        return [fill(one, name, depth + 1) for one in of if one is not ...]
    if origin in (list, set):
        return [] if depth >= DEPTH else [fill(of[0], name, depth + 1)]
    if origin is dict:
        return {fill(of[0], "key", depth + 1): fill(of[1], name, depth + 1)}
    if kind in (datetime, AwareDatetime):
        return START
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {} if depth >= DEPTH else {one.name: fill(hints[one.name], f"{name}.{one.name}", depth + 1) for one in dataclasses.fields(kind)}
    if isinstance(kind, type):
        if issubclass(kind, bool):
            return True
        if issubclass(kind, int):
            return 7
        if issubclass(kind, float):
            return 0.5
        if issubclass(kind, str):
            return name
        if issubclass(kind, BaseModel):
            return {} if depth >= DEPTH else fields(kind, name, depth + 1)
        if kind is list:
            return [name]
        if kind is dict:
            return {"key": name}
    return name


def fields(kind: type[BaseModel], name: str, depth: int = 0) -> dict:
    return {
        field: fill(info.annotation, f"{name}.{field}", depth)
        for field, info in kind.model_fields.items() if not info.exclude
    }


def events() -> list:
    """One of each kind, in Inspect's order."""
    made = []
    for kind in typing.get_args(Event):
        name = kind.model_fields["event"].default
        values = fields(kind, name) | {"event": name, "timestamp": START}
        if "events" in values:
            values["events"] = []
        if name == "model":
            answer = ChatMessageAssistant(id="m1", content="model.said", tool_calls=[ToolCall(id="c1", function="bash", arguments={"cmd": "model.called"})])
            values |= {"output": ModelOutput.from_message(answer).model_dump(), "pending": None, "role": None, "call": None, "input": [ChatMessageUser(content="model.input").model_dump()], "tool_choice": "auto"}
        if name == "tool":
            values |= {"id": "c1", "function": "bash", "arguments": {"cmd": "model.called"}, "result": "tool.result", "error": None, "events": [], "pending": None}
        if name == "sentinel":
            values |= dict.fromkeys(("error", "action", "modified", "message"))
        made.append(kind.model_validate(values))
    return made


def log(path: Path, with_messages: bool) -> Path:
    made = events()
    messages = [
        ChatMessageUser(id="u1", content="Please."),
        ChatMessageAssistant(id="m1", content="model.said", tool_calls=[ToolCall(id="c1", function="bash", arguments={"cmd": "model.called"})]),
        ChatMessageTool(id="t1", content="tool.result", tool_call_id="c1", function="bash"),
    ] if with_messages else []
    sample = EvalSample(id=path.stem, epoch=1, input="Please.", target="", messages=messages, events=made)
    spec = EvalSpec(created=START.isoformat(), task=path.stem, dataset=EvalDataset(), model="mock/model", config=EvalConfig())
    write_eval_log(EvalLog(eval=spec, plan=EvalPlan(), samples=[sample], status="success"), str(path))
    return path


if __name__ == "__main__":
    print([event.event for event in events()])
