"""Chat templates: a conversation becomes the prompt that a model was trained to answer."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.system.errors import UserError
from regard.system.json_files import JsonError, parse_json
from regard.system.optional import needed

MOST_CHARACTERS = 2_000_000
"""The longest prompt that a template may make."""
PATIENCE_SECONDS = 20
"""How long rendering may take on a busy machine; the processor's time is limited apart from it."""
PRIVATE = range(0xE000, 0xF8FF)
"""Characters without a meaning: one that a conversation does not have marks its special tokens."""

PROGRAM = Path(__file__).with_name("template_process.py")
"""What runs in the template's process."""

Message = dict[str, str]
"""{"role": "user", "content": "Hello"}."""


@dataclass(frozen=True)
class ChatTemplate:
    """A template in jinja2's language, which came with a model; it is never run in this process."""

    text: str
    tokenizer: Tokenizer

    def prompt(self, messages: list[Message]) -> list[int]:
        """The token ids of a conversation, up to where the next answer begins.

        A special token that a message spells out, such as `<|im_end|>`, is read as plain text: no
        message can end itself and pretend to be another.
        """
        guard = self._unused_character(messages)
        guarded = [
            message | {"content": self._guarded(message["content"], guard)} for message in messages
        ]
        return self.tokenizer.encode_spelled(self._render(guarded), guard=guard)

    def _unused_character(self, messages: list[Message]) -> str:
        used = {*self.text, *(letter for message in messages for letter in message["content"])}
        return next(chr(code) for code in PRIVATE if chr(code) not in used)

    def _guarded(self, text: str, guard: str) -> str:
        """The text with a mark inside everything that looks like a special token."""
        for token in self.tokenizer.spellings:
            text = text.replace(token, token[0] + guard + token[1:])
        return text

    def _render(self, messages: list[Message]) -> str:
        special = self.tokenizer.special
        tokens = {"bos_token": special.start, "eos_token": special.end}
        variables = {
            "messages": messages,
            "add_generation_prompt": True,
            **{
                name: "" if number is None else self.tokenizer.tokens([number])[0]
                for name, number in tokens.items()
            },
        }
        return render(self.text, variables)


def render(template: str, variables: dict[str, object]) -> str:
    """The text that a template makes of its variables, in a process with little time and memory."""
    needed("jinja2", extra="gguf", what="A chat template")
    request = {"template": template, "variables": variables, "most": MOST_CHARACTERS}
    command = [sys.executable, "-I", str(PROGRAM)]
    try:
        result = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            start_new_session=True,  # Ctrl-C is for the answer, not for the template
        )
    except subprocess.TimeoutExpired:
        raise UserError(_refusal("it does not come to an end")) from None
    if result.returncode < 0:  # ended by the system: its time is over
        raise UserError(_refusal("it does not come to an end"))
    try:
        answer = parse_json(result.stdout, dict[str, str], where="the template's process")
    except JsonError:
        fault = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise UserError(_refusal(fault)) from None
    if "fault" in answer:
        raise UserError(_refusal(answer["fault"]))
    return answer["text"]


def _refusal(fault: str) -> str:
    return f"The chat template of this run cannot be used: {fault.rstrip('.')}."
