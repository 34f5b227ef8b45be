"""What the plug-ins of vLLM and SGLang share. Its parts import neither engine, and no torch.

| part | its subject |
|---|---|
| `masks` | a matcher whose errors end its own request and nothing else |
| `compiling` | one compiler for the tokens of a model, and threads that compile ahead of the engine |
"""
