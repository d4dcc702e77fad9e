"""Chat templates written for the tests, each with one habit that real templates have."""

MARKED = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\\n' }}{% generation %}{{ m['content'] }}{% endgeneration %}{{ '<|im_end|>\\n' }}"
    "{% else %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Marks the answers, and leaves the stop token outside the marks."""

MARKED_APART = MARKED.replace(
    "{% endgeneration %}{{ '<|im_end|>\\n' }}",
    "{% endgeneration %}{% generation %}{{ '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}",
)
"""Marks answer and stop token apart."""

MARKED_ONCE = (
    "{% for m in messages %}{% if m['role'] == 'assistant' and loop.last %}"
    "{% generation %}{{ m['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m['role'] + ': ' + m['content'] + '<|im_end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{% endif %}"
)
"""Marks the last answer only."""

THINKING = (
    "{% if tools %}{{ '<|im_start|>tools\\n' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}"
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages %}{% if m['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}"
    "{% if m['role'] == 'assistant' and loop.index0 > ns.last %}"
    "{{ '<think>\\n' + (m['reasoning_content'] or '') + '\\n</think>\\n\\n' }}{% endif %}"
    "{% set shown = m['content'].split('</think>') | last %}{{ shown }}"
    "{% for call in m['tool_calls'] or [] %}{{ 'CALL ' + (call['function'] | tojson) }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Opens the last answer with a thinking block and drops that of earlier ones; writes tools and calls."""

STRICT = (
    "{% for m in messages %}{% if m['role'] not in ['user', 'assistant'] %}"
    "{{ raise_exception('only user and assistant turns are supported') }}{% endif %}"
    "{{ '[' + m['role'] + '] ' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[assistant] ' }}{% endif %}"
)
"""Refuses every turn but those of user and assistant."""

OPENS_THINKING = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)
"""Opens an answer with a thought that a written answer does not have."""

PARTS = (
    "{% for m in messages %}{{ m['role'] + ': ' }}{% for p in m['content'] %}{{ p['text'] }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
"""Wants content as typed parts, as templates of vision models do."""

DATED = "{{ 'Today is ' + strftime_now('%d %b %Y') + '.\\n' }}" + OPENS_THINKING.replace("<think>\\n", "")
"""Writes the date."""

ENDS_ONCE = (
    "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% else %}{{ eos_token }}{% endif %}"
)
"""Writes the end token after the whole conversation, not after each answer."""
