#!/usr/bin/env python3
"""Other people's clients against `transformer serve`: OpenAI's and LibreTranslate's Python clients, curl, and schemathesis, which asks
whatever the description allows and looks whether the answers are as described.

    python3 tests/serve/clients_test.py --command build/transformer --out build/clients

makes small models and serves them at a free port of 127.0.0.1. What is not installed is skipped with a message; where OpenAI's client is
missing, all of it is, with exit code 77. --url takes a server that runs already, with models called writer and translator.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

try:
    import openai
except ImportError:
    print("skipped: OpenAI's client is not there (pip install openai schemathesis)")
    sys.exit(77)
try:
    import libretranslatepy
except ImportError:
    libretranslatepy = None

arguments = argparse.ArgumentParser()
arguments.add_argument("--command", default="build/transformer")
arguments.add_argument("--out", default="build/clients")
arguments.add_argument("--url", help="a server that runs already")
arguments.add_argument("--model", action="append", default=[], help="NAME=FOLDER, a model that is there already: writer, translator")
arguments.add_argument("--examples", default="20", help="of schemathesis, for each endpoint")
options, rest = arguments.parse_known_args()
out = pathlib.Path(options.out).resolve()
command = str(pathlib.Path(options.command).resolve())


def make_models():
    out.mkdir(parents=True, exist_ok=True)
    models = dict(word.split("=", 1) for word in options.model)
    if "writer" not in models:
        models["writer"] = str(out / "writer")
        if not (out / "writer" / "model.safetensors").exists():
            (out / "text.txt").write_text("To be, or not to be, that is the question. 나는 학교에 간다. {\"name\": 0123456789, \"age\"}\n" * 300, encoding="utf-8")
            subprocess.run([command, "train", "lm", "--text", "text.txt", "--save-dir", "writer", "--context", "256", "--d-model", "48",
                            "--num-heads", "4", "--num-layers", "2", "--batch-size", "4", "--max-update", "30"], cwd=out, check=True,
                           capture_output=True)
            (out / "writer" / "chat_template.jinja").write_text(
                "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    if "translator" not in models:
        models["translator"] = str(out / "translator")
        if not (out / "translator" / "model.safetensors").exists():
            subprocess.run([command, "demo", "--sentences", "2000", "--updates", "30", "--out", "translator"], cwd=out, check=True,
                           capture_output=True)
    return models


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server, cls.url = None, options.url
        if not cls.url:
            cls.server = subprocess.Popen([command, "serve", *(f"{k}={v}" for k, v in make_models().items()), "--port", "0"],
                                          stderr=subprocess.PIPE, text=True)
            for line in cls.server.stderr:
                if found := re.search(r"http://\S+", line):
                    cls.url = found[0]
                    break
        cls.client = openai.OpenAI(base_url=cls.url + "/v1", api_key="none", timeout=60, max_retries=0)

    @classmethod
    def tearDownClass(cls):
        if cls.server:
            cls.server.terminate()
            assert cls.server.wait(60) == 0, "the server did not end in peace"

    def test_models(self):
        self.assertIn("writer", [m.id for m in self.client.models.list()])
        self.assertEqual(self.client.models.retrieve("writer").id, "writer")

    def test_completion(self):
        asked = dict(model="writer", prompt="To be", max_tokens=12, seed=3, temperature=0.8)
        whole = self.client.completions.create(**asked)
        self.assertEqual(whole.usage.completion_tokens + whole.usage.prompt_tokens, whole.usage.total_tokens)
        pieces = [e.choices[0].text for e in self.client.completions.create(stream=True, **asked) if e.choices]
        self.assertEqual("".join(pieces), whole.choices[0].text)
        several = self.client.completions.create(model="writer", prompt=["a", "b"], n=2, max_tokens=4, logprobs=2)
        self.assertEqual(len(several.choices), 4)
        self.assertEqual(len(several.choices[0].logprobs.tokens), len(several.choices[0].logprobs.token_logprobs))

    def test_chat(self):
        asked = dict(model="writer", messages=[{"role": "user", "content": "hi"}], max_tokens=10, seed=1, logprobs=True, top_logprobs=2)
        try:
            whole = self.client.chat.completions.create(**asked)
        except openai.BadRequestError as e:
            self.assertIn("chat template", str(e))
            self.skipTest("the model has no chat template")
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertEqual(len(whole.choices[0].logprobs.content[0].top_logprobs), 2)
        events = list(self.client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked))
        text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(events[-1].usage, whole.usage)

    def test_structured(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
                  "required": ["name", "age"], "additionalProperties": False}
        answer = self.client.completions.create(model="writer", prompt="Who?", max_tokens=80, seed=5,
                                                extra_body={"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}})
        read = json.loads(answer.choices[0].text)
        self.assertEqual(sorted(read), ["age", "name"])
        self.assertIsInstance(read["age"], int)

    def test_embeddings(self):
        answer = self.client.embeddings.create(model="writer", input=["to be", "not to be"])  # the client asks for base64
        plain = self.client.embeddings.create(model="writer", input=["to be"], encoding_format="float")
        self.assertEqual(len(answer.data), 2)
        self.assertEqual(answer.data[0].embedding, plain.data[0].embedding)

    def test_errors(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="nobody", prompt="a")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model="writer", prompt="a " * 5000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    @unittest.skipUnless(libretranslatepy, "LibreTranslate's client is not there (pip install libretranslatepy)")
    def test_libretranslate(self):
        client = libretranslatepy.LibreTranslateAPI(self.url)
        self.assertIn("auto", [language["code"] for language in client.languages()])
        text = client.translate("I love cats & 5 + 5 = 10", "auto", "auto")
        self.assertIsInstance(text, str)
        self.assertEqual(text, client.translate("I love cats & 5 + 5 = 10", "", ""))

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_curl(self):
        def curl(*words):
            return subprocess.run(["curl", "-sS", *words], check=True, capture_output=True, text=True).stdout
        body = json.dumps({"model": "translator", "q": "I go to school", "source": "auto", "target": "auto"})
        self.assertIn("translatedText", json.loads(curl(self.url + "/translate", "-H", "Content-Type: application/json", "-d", body)))
        stream = curl("-N", self.url + "/v1/completions", "-H", "Content-Type: application/json", "-d",
                      json.dumps({"model": "writer", "prompt": "To", "max_tokens": 3, "stream": True}))
        self.assertTrue(stream.strip().endswith("data: [DONE]"))
        self.assertIn("transformer_requests_total", curl(self.url + "/metrics"))

    def test_schemathesis(self):
        program = shutil.which("schemathesis", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("schemathesis")
        if not program:
            self.skipTest("schemathesis is not installed")
        words = [program, "run", self.url + "/openapi.json", "--checks",
                 "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
                 "--max-examples", options.examples, "--request-timeout", "60", "--no-color"]
        found = subprocess.run(words, capture_output=True, text=True, cwd=out)
        self.assertEqual(found.returncode, 0, found.stdout[-6000:] + found.stderr[-2000:])
        print(found.stdout[-600:])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *rest])
