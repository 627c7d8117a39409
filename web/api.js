// The server's routes. An answer that is an error becomes an Error with the server's words.
import { t } from "./strings.js";

async function answer(response) {
  const type = response.headers.get("content-type") ?? "";
  const body = type.includes("json") ? await response.json() : await response.text();
  if (response.ok) return body;
  const error = body?.error;
  throw new Error(error?.message ?? (typeof error === "string" ? error : `${response.status} ${response.statusText}`));
}

let refused = false;  // the user gave no key: he is not asked again and again

// A server that wants a key is asked again with the one that its user gives; it is kept as long as the page is open.
async function send(path, body, signal) {
  const key = sessionStorage.getItem("key");
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...(key ? { authorization: `Bearer ${key}` } : {}) },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  if (response.status !== 401 || refused) return response;
  const given = window.prompt(t("key"));
  refused = !given;
  if (!given) return response;
  sessionStorage.setItem("key", given);
  return send(path, body, signal);
}

async function request(path, body, signal) {
  try {
    return await answer(await send(path, body, signal));
  } catch (error) {
    if (error instanceof TypeError) throw new Error(t("unreachable", { why: error.message }));
    throw error;
  }
}

export const models = async () => (await request("v1/models")).data;
export const explain = (body, signal) => request("explain", body, signal);
export const translate = (body, signal) => request("translate", body, signal);
export const trainingRows = (from, points, signal) => request(`training/metrics?from=${from}&points=${points}`, undefined, signal);
export const trainingSample = (text, signal) => request("training/sample", { text }, signal);

// Server-sent events of a completion: calls onevent with each JSON value, until [DONE].
export async function stream(path, body, onevent, signal) {
  const response = await send(path, { ...body, stream: true }, signal);
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
