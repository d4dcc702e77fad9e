"""The prompt for models without a chat template: that of Stanford Alpaca, as a Jinja template.

Source: github.com/tatsu-lab/stanford_alpaca (2023), the prompt for examples with an empty input field; the
input stands in the instruction here. A system turn replaces the opening sentence, further turns repeat the
two headings, and each answer ends with the tokenizer's end token where it has one.
"""

ALPACA_PROMPT = """\
{%- if messages and messages[0]['role'] == 'system' -%}
{{ messages[0]['content'] }}
{%- else -%}
Below is an instruction that describes a task. Write a response that appropriately completes the request.
{%- endif -%}
{%- for message in messages -%}
{%- if message['role'] == 'user' -%}
{{ '\\n\\n### Instruction:\\n' + message['content'] }}
{%- elif message['role'] == 'assistant' -%}
{{ '\\n\\n### Response:\\n' + message['content'] + (eos_token or '') }}
{%- elif not loop.first -%}
{{ raise_exception('the Alpaca prompt has no place for a ' + message['role'] + ' turn here') }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '\\n\\n### Response:\\n' }}
{%- endif -%}
"""
