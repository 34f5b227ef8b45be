"""A reasoning parser for tests: reasoning ends with the first line. vLLM loads this file by its path."""

from vllm.reasoning import ReasoningParser, ReasoningParserManager


@ReasoningParserManager.register_module("line")
class LineParser(ReasoningParser):
    """The output is reasoning up to the end of its first line. A prompt holds none."""

    def _ends(self, ids):
        return any("\n" in self.model_tokenizer.decode([id]) for id in ids)

    def is_reasoning_end(self, input_ids):
        return False

    def is_reasoning_end_streaming(self, input_ids, delta_ids):
        return self._ends(delta_ids)

    def extract_content_ids(self, input_ids):
        at = next((at for at, id in enumerate(input_ids) if self._ends([id])), len(input_ids))
        return list(input_ids[at + 1 :])

    def extract_reasoning(self, model_output, request):
        reasoning, _, content = model_output.partition("\n")
        return reasoning, content or None

    def extract_reasoning_streaming(self, previous_text, current_text, delta_text, previous_token_ids, current_token_ids, delta_token_ids):
        return None
