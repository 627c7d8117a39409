// The server's routes. An answer that is an error becomes an Error with the server's words.
import { t } from "./strings.js";

async function answer(response) {
  const type = response.headers.get("content-type") ?? "";
  const body = type.includes("json") ? await response.json() : await response.text();
  if (response.ok) return body;
  const error = body?.error;
  throw new Error(error?.message ?? (typeof error === "string" ? error : `${response.status} ${response.statusText}`));
}

async function request(path, body, signal) {
  try {
    const options = body === undefined
      ? { signal }
      : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
    return await answer(await fetch(path, options));
  } catch (error) {
    if (error instanceof TypeError) throw new Error(t("unreachable", { why: error.message }));
    throw error;
  }
}

export const models = async () => (await request("v1/models")).data;
export const explain = (body, signal) => request("explain", body, signal);
export const translate = (body, signal) => request("translate", body, signal);
export const trainingRows = (from, signal) => request(`training/metrics?from=${from}`, undefined, signal);

// Server-sent events of a completion: calls onevent with each JSON value, until [DONE].
export async function stream(path, body, onevent, signal) {
  const response = await fetch(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ ...body, stream: true }), signal,
  });
  if (!response.ok) await answer(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message ?? String(event.error));
      onevent(event);
    }
  }
}
