"""Writes cases.json: what Jinja gives for the templates below, set up as Hugging Face Transformers sets it up.

    pip install jinja2 && python make_cases.py

The templates are ours, in the styles of published ones.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2024, 7, 26, 9, 5, 7)


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what the assistant said; the text is the same."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


def case(name, template, messages=(), tools=None, documents=None, add_generation_prompt=False, **variables):
    c = {"name": name, "template": template, "messages": list(messages), "tools": tools, "documents": documents,
         "add_generation_prompt": add_generation_prompt, "variables": variables}
    try:
        c["expected"] = environment().from_string(template).render(
            messages=c["messages"], tools=tools, documents=documents, add_generation_prompt=add_generation_prompt, **variables)
    except Exception as error:
        c["error"] = str(error)
    return c


USER = {"role": "user", "content": "Hello  there\n"}
BOT = {"role": "assistant", "content": " Hi! \n"}
SYSTEM = {"role": "system", "content": "Be kind."}
KOREAN = {"role": "user", "content": "나는 학교에 간다 🙂 \"quoted\" 'single' <b>&amp;</b>"}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": {"city": "Seoul", "days": 3}}}]}
RESULT = {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "{\"rain\": true}"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "image"}, {"type": "text", "text": " this?"}]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Its name"},
                                     "days": {"type": "integer", "enum": [1, 2, 3]}}, "required": ["city"]}}}]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

BRACKETS = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must take turns: user, assistant, user, …') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<RULES>>\\n' + system_message + '\\n<</RULES>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[ASK] ' + content.strip() + ' [/ASK]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""

HEADERS = """
{%- set ns = namespace(found=false) %}
{%- for message in messages %}
    {%- set content = '<|head|>' + message['role'] + '<|/head|>\n\n' + message['content'] | trim + '<|turn|>' %}
    {%- if loop.index0 == 0 %}
        {%- set content = bos_token + content %}
    {%- endif %}
    {%- if message.role == 'system' %}{% set ns.found = true %}{% endif %}
    {{- content }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\n\n' }}
{%- endif %}
{{- ns.found }}
"""

LINES = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ 'User: ' + message['content'] }}
{% elif message['role'] == 'system' %}
  {{ 'System: ' + message['content'] }}
{% else %}
{{ 'Bot: '  + message['content'] }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ 'Bot:' }}
{% endif %}
{% endfor %}
"""

MARKED = """{%- if tools %}
    {{- '<|begin|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- else %}
        {{- 'You help.\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|end|>\\n" }}
{%- endif %}
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<result>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|begin|>' + message.role + '\\n' + content + '<|end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<|begin|>' + message.role + '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|begin|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {{- '<call>\\n{"name": "' }}
                {{- tool_call.name }}
                {{- '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\\n</call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|begin|>user' }}
        {%- endif %}
        {{- '\\n<result>\\n' }}
        {{- content }}
        {{- '\\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|begin|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

DATED = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system message is taken out, so that it stands first. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "[head]system[/head]\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: here\\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'interpreter') | join(", ") + "\\n\\n"}}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}[end]
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '[head]' + message['role'] + '[/head]\\n\\n'+ message['content'] | trim + '[end]' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One tool call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '[head]assistant[/head]\\n\\n' }}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {%- for arg_name, arg_val in tool_call.arguments | items %}
            {{- arg_name + '="' + arg_val|string + '"' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- endif %}
        {%- endfor %}
        {{- "[end]" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "[head]ipython[/head]\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "[end]" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '[head]assistant[/head]\\n\\n' }}
{%- endif %}
"""

SELECTED = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Ids of tool calls have 9 characters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[RESULTS] {"content": ' + content|string + ", " }}
        {{- '"id": "' + message.tool_call_id + '"}[/RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant, and system first") }}
    {%- endif %}
{%- endfor %}
"""

MACROS = """{%- macro type_of(spec) -%}
    {%- if spec.type == 'array' -%}
        {{- 'list[' + type_of(spec['items']) + ']' -}}
    {%- elif spec.enum -%}
        {{- spec.enum | map('tojson') | join(' | ') -}}
    {%- else -%}
        {{- {'string': 'str', 'integer': 'int'}[spec.type] or 'any' -}}
    {%- endif -%}
{%- endmacro %}
{%- macro part(content, upper=false) %}
    {%- if content is string %}
        {{- content | upper if upper else content }}
    {%- else %}
        {%- for item in content %}
            {%- if item.type == 'image' or 'image' in item %}
                {{- '<image>' }}
            {%- elif 'text' in item %}
                {{- item.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- for tool in tools or [] %}
{{ loop.index }}. {{ tool.function.name }}({% for name, spec in tool.function.parameters.properties | dictsort %}{{ name }}: {{ type_of(spec) }}{{ '' if loop.last else ', ' }}{% endfor %})
{% endfor %}
{% for message in messages %}
<{{ message.role }}>{{ part(message.content, upper=message.role == 'system') }}</{{ message.role }}>
{% endfor %}"""

SNIPPETS = {
    "whitespace": "a\n  {% if true %}\n    b\n  {% endif %}\nc\n\n",
    "whitespace minus": "a  \n {%- if true -%} \n b \n {%- endif %}\n c {{- ' d ' -}} \n e",
    "whitespace plus": "a\n  {%+ if true +%}\n b{% endif +%}\nc",
    "whitespace of comments": "a\n  {# one #}\n  b {# two #}\nc{#- three -#}  d\n  {#+ four #}e",
    "indented output": "  {{ 1 }}\n  {{ 2 -}}\n  x",
    "two blocks in a line": "  {% set a = 1 %} {% set b = 2 %}\n{{ a + b }}",
    "block after output": "{{ 1 }}  {% if true %}x{% endif %}",
    "newline kinds": "a\r\n{% if true %}\r\nb{% endif %}\rc\n",
    "trailing newlines": "a\n\n",
    "raw": "  {% raw %}\n {{ x }} {% y %}\n  {% endraw %}\nz{%- raw -%}  a  {%- endraw -%}  b",
    "braces in text": "{ {a} }} %} {'x': 1}",
    "dict in output": "{{ {'a': {'b': 1}} }} {{ {} }} {{ {'a': [1, (2,), ()]}['a'] }}",
    "strings": "{{ 'a\\n\\t\\\\b\\'c\\x41\\u00e9\\U0001F600\\101\\q' \"d\" }}",
    "numbers": "{{ 1_000 + 2 }} {{ 1.5e3 }} {{ 2.0 }} {{ 1e22 }} {{ 1e-7 }} {{ 0.1 + 0.2 }} {{ 10 ** 3 }} {{ 2 ** -1 }} {{ 1e16 }} {{ 123456789.0 }}",
    "division": "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }}",
    "precedence": "{{ 1 + 2 * 3 - 4 }} {{ not 1 == 2 }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 5 }} {{ 2 * 3 ~ 4 * 2 }} {{ -2 ** 2 }} {{ 1 if 0 else 2 if 0 else 3 }}",
    "logic": "{{ 0 or 'x' }} {{ '' and 1 }} {{ [] or none }} {{ true and false or 3 }} {{ not [] }} {{ none is none and 1 }}",
    "bools are numbers": "{{ true + true }} {{ true == 1 }} {{ [1, 2][true] }} {{ false * 3 }}",
    "in": "{{ 'b' in 'abc' }} {{ 4 not in [1, 2] }} {{ 'a' in {'a': 1} }} {{ 1 in (1, 2) }} {{ 'x' in missing }}",
    "undefined": "[{{ missing }}] {{ missing is defined }} {{ missing or 'y' }} {{ missing | length }} {{ missing | default('d') }} {{ {}.x }} {{ [][0] is defined }} {{ (1 if false) is undefined }} {{ missing == nothing }} {{ missing ~ 'a' }}",
    "loop": "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem is defined }}{{ loop.cycle('p', 'q') }};{% endfor %}",
    "loop filter": "{% for x in range(10) if x is odd %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}{% for x in [] %}a{% else %}none{% endfor %}",
    "loop scopes": "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "loop names": "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}{{ b }}{% endfor %}{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}{% for k in {'p': 0, 'q': 1} %}{{ k }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "break and continue": "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{% for y in 'ab' %}{% if y == 'b' %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %}{% endfor %}",
    "nested loops": "{% for a in [1, 2] %}{% set outer = loop %}{% for b in 'xy' %}{{ outer.index }}{{ loop.index }}{{ loop.depth0 }} {% endfor %}{% endfor %}",
    "namespace": "{% set ns = namespace(a=1, b='x') %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% set ns.c = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}",
    "set": "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set x %} block {{ a }} {% endset %}[{{ x }}]{% set y | upper | trim %} up {% endset %}[{{ y }}]",
    "with and filter": "{% with a = 1, b = 'q' %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}{% filter upper | replace('B', 'x') %}abc{{ 'b' }}{% endfilter %}",
    "generation": "{% for x in [1, 2] %}{% generation %}{{ x }}{% set y = x %}{% endgeneration %}{{ y is defined }}{% endfor %}",
    "macro": "{% macro m(a, b=2, c='z') %}[{{ a }}|{{ b }}|{{ c }}|{{ g }}]{% endmacro %}{% set g = 9 %}{{ m(1) }}{{ m(1, 3) }}{{ m(c=4, a=5) }}{{ m() }}{% set text = m(7) %}{{ text | length }}",
    "macro recursion": "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "slices": "{{ 'abcdef'[1:3] }} {{ 'abcdef'[-2:] }} {{ 'abcdef'[::-1] }} {{ [1, 2, 3, 4][::2] }} {{ [1, 2, 3][5:] }} {{ 'abc'[-9:2] }} {{ (1, 2, 3)[:-1] }} {{ '나는 가'[1] }} {{ 'abc'[5] is defined }} {{ [1, 2, 3][2:0:-1] }}",
    "attribute and item": "{{ {'items': 1}['items'] }} {{ {'a': {'b': [5, 6]}}.a.b.1 }} {{ {'a': 1}['b'] is defined }} {{ {1: 'x'}[1] }} {{ {'get': 3}.get('get') }} {{ {'a': 1}.get('z') }} {{ {'a': 1}.get('z', 'd') }}",
    "text methods": "{{ '  a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'a b c'.rsplit(' ', 1) }}|{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith(('x', 'bc')) }}|{{ 'Ab c'.upper() }}|{{ 'Ab'.lower() }}|{{ 'hello world'.title() }}|{{ 'hELLO'.capitalize() }}|{{ 'aXbX'.replace('X', '-') }}|{{ 'aXbX'.replace('X', '-', 1) }}|{{ 'abcb'.find('b') }}|{{ 'abcb'.rfind('b') }}|{{ 'abc'.find('z') }}|{{ 'abab'.count('ab') }}|{{ '-'.join(['a', 'b']) }}|{{ 'a\nb\r\nc\n'.splitlines() }}|{{ '12'.isdigit() }}|{{ 'a1'.isalpha() }}|{{ 'prefix'.removeprefix('pre') }}|{{ 'suffix'.removesuffix('fix') }}|{{ '나는 가'.find('가') }}",
    "dict methods": "{{ {'a': 1, 'b': 2}.keys() | list }} {{ {'a': 1, 'b': 2}.values() | list }} {{ {'a': 1, 'b': 2}.items() | list }} {{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }}",
    "filters of text": "{{ ' a ' | trim }}|{{ 'aXb' | replace('X', 'Y') }}|{{ 'ab cd-ef' | title }}|{{ 'ABC' | capitalize }}|{{ 'abc' | upper }}|{{ 'É' | lower }}|{{ 'straße' | upper }}|{{ 'abc' | length }}|{{ '나는' | count }}|{{ '<a href=\"x\">\\'&' | e }}|{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb' | indent(1, blank=true) }}|{{ 'abc' | reverse }}|{{ 5 | string }}|{{ '<' | safe }}|{{ 'xax' | trim('x') }}",
    "filters of numbers": "{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '3.7' | int }} {{ 3.7 | int }} {{ '1.5' | float }} {{ 'z' | float(2.5) }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ -3 | abs }} {{ 'ff' | int(0, 16) }}",
    "filters of lists": "{{ [1, 2] | first }} {{ [1, 2] | last }} {{ [] | first is defined }} {{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort(reverse=true) }} {{ [1, 1, 2] | unique | list }} {{ [1, 2] | sum }} {{ [{'a': 1}, {'a': 2}] | sum(attribute='a') }} {{ [3, 1] | max }} {{ [3, 1] | min }} {{ ['a', 'b'] | join }} {{ [1, 2] | join('-') }} {{ [{'n': 'x'}, {'n': 'y'}] | join(',', attribute='n') }} {{ 'abc' | list }} {{ [1, 2, 3] | reverse | list }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | items | list }} {{ (1, 2) | list }}",
    "map and select": "{{ [{'a': {'b': 1}}, {'a': {'b': 2}}] | map(attribute='a.b') | list }} {{ ['a', 'b'] | map('upper') | list }} {{ [{'a': 1}, {}] | map(attribute='a', default=0) | list }} {{ [1, 2, 3] | select('odd') | list }} {{ [1, 0, 2] | select | list }} {{ [1, 2, 3] | reject('equalto', 2) | list }} {{ [{'r': 'u', 'n': 1}, {'r': 'v', 'n': 2}] | selectattr('r', 'equalto', 'v') | map(attribute='n') | list }} {{ [{'a': 1}, {'b': 1}] | rejectattr('a', 'defined') | list }} {{ [1, 2] | map('string') | join }} {{ ['x'] | map('replace', 'x', 'y') | first }}",
    "default": "{{ '' | default('a') }}|{{ '' | default('a', true) }}|{{ none | d('a') }}|{{ missing | d }}|{{ 0 | default(5, boolean=true) }}",
    "tojson": "{{ {'a': [1, 2.5, true, none, 'é\"\\n<>&\\u0001'], 'b': {}} | tojson }} {{ {'b': 1, 'a': [1, []]} | tojson(indent=2) }} {{ {'b': 1, 'a': 'é😀'} | tojson(sort_keys=true, ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ 'x' | tojson }} {{ (1, 2) | tojson }} {{ {1: 2} | tojson }}",
    "repr": "{{ ['a', \"it's\", 'q\"', 'a\\nb', 'é', none, true, 1.0, {'k': (1,)}] }} {{ [''] }} {{ none }} {{ true }}",
    "tests": "{{ 1 is number }} {{ 1.0 is float }} {{ true is integer }} {{ true is boolean }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ 4 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is eq 1 }} {{ 1 is ne(2) }} {{ 2 is gt 1 }} {{ 1 is in [1] }} {{ 'a' is lower }} {{ 'A' is upper }} {{ none is not none }} {{ true is true }} {{ 1 is sameas 1 }} {{ range is callable }} {{ 1 is not string and 2 is number }} {{ 3 is lt 4 }}",
    "range and dict": "{{ range(3) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ dict(a=1, b=[2]) }} {{ dict(a=1).a }}",
    "multiply": "{{ 'ab' * 3 }} {{ [1] * 2 }} {{ 2 * 'x' }} {{ 'a' * 0 }}",
    "compare": "{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 <= 1.0 }} {{ (1, 2) == (1, 2) }} {{ {'a': 1} == {'a': 1.0} }} {{ 'a' == 1 }} {{ none == false }} {{ 1 != 2 }} {{ 2 >= 3 }}",
    "markup": "{{ '<' | safe + '<' }} {{ '<' + ('>' | e) + '\"' }} {{ '<' | safe ~ '<' }} {{ ('a' | safe) == 'a' }} {{ '<' | e | e }} {{ [1] | tojson | safe }}",
    "format": "{{ 'a{}b{}'.format(1, 'x') }} {{ '{1}{0}{{}}{n}'.format(1, 2, n=3) }}",
    "nothing to select": "{{ none | selectattr('a') | list }} {{ none | map('upper') | list }} {{ none | select | list | length }}",
    "unknown where it is not reached": "{% if false %}{{ 1 | nosuch }}{{ 1 is nosuch }}{% endif %}a",
    "time": "{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%B %d, %H:%M:%S') }} {{ strftime_now('') }}",
    "calls across lines": "{{ dict(\n  a = 1,\n  b = 2,\n) }}{{ [\n1,\n2,\n] }}",
    # What Jinja refuses as well.
    "error: raised": "{{ raise_exception('no ' ~ 'way') }}",
    "error: undefined attribute": "{{ missing.x }}",
    "error: undefined sum": "{{ 'a' + missing }}",
    "error: types": "{{ 1 + 'a' }}",
    "error: division": "{{ 1 // 0 }}",
    "error: unclosed": "{% if true %}a",
    "error: unknown filter": "{{ 1 | nosuch }}",
    "error: unknown test": "{{ 1 is nosuch }}",
    "error: unknown block": "{% nosuch %}",
    "error: bracket": "{{ (1 }}",
    "error: string": "{{ 'abc }}",
    "error: comment": "{# abc",
    "error: not callable": "{{ 1() }}",
    "error: call of nothing": "{{ missing() }}",
    "error: list is fixed": "{% set x = [] %}{{ x.append(1) }}",
    "error: order": "{{ 1 < 'a' }}",
    "error: unpack": "{% for a, b in [1] %}{% endfor %}",
    "error: set attribute": "{% set x = {} %}{% set x.y = 1 %}",
    "error: no items": "{% for a in 3 %}{% endfor %}",
    "error: big range": "{{ range(1000000) | length }}",
    "error: macro argument": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "error: loop outside": "{{ loop.index }}",
    "error: stray end": "{% endif %}",
}


def all_cases():
    chats = {
        "turns": [USER, BOT, USER], "system": [SYSTEM, USER, BOT, KOREAN], "one": [KOREAN], "wrong turns": [USER, USER],
        "tools": [SYSTEM, USER, CALL, RESULT, BOT, USER],
        "thoughts": [USER, {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes."}, USER,
                     {"role": "assistant", "content": "<think>Again</think>No."}],
    }
    for style, template in (("brackets", BRACKETS), ("headers", HEADERS), ("lines", LINES), ("marked", MARKED), ("dated", DATED),
                            ("selected", SELECTED)):
        for chat, messages in chats.items():
            if chat == "tools" and style in ("brackets", "headers", "lines"):
                continue
            for prompt in (False, True):
                tools = TOOLS if chat == "tools" else None
                yield case(f"{style}: {chat}", template, messages, tools=tools, add_generation_prompt=prompt, **TOKENS)
    yield case("marked: no thinking", MARKED, [USER], add_generation_prompt=True, enable_thinking=False, **TOKENS)
    yield case("dated: builtin", DATED, [USER], builtin_tools=["search", "interpreter", "maths"], date_string="1 Jan 2025", **TOKENS)
    yield case("macros", MACROS, [SYSTEM, PARTS, BOT], tools=TOOLS)
    for name, template in SNIPPETS.items():
        yield case(name, template)


if __name__ == "__main__":
    cases = list(all_cases())
    for c in cases:
        assert ("error" in c) == c["name"].startswith("error") or "error" in c and "turn" in c["error"], (c["name"], c.get("error"))
    path = pathlib.Path(__file__).parent / "cases.json"
    path.write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(cases)} cases")
