// Make a schedule unless it is there, then follow all changes, after a lost connection from the last event seen.
// Needs Node 18 or newer, and no packages.
// Start: API=http://127.0.0.1:9180/api/v1 TOKEN=zs_… node reminders.mjs
const { API, TOKEN } = process.env;
const authorization = { Authorization: `Bearer ${TOKEN}` };

class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? `status ${status}`);
    Object.assign(this, body, { status }); // type, option, value, remedy
  }
}

async function checked(response) {
  if (response.ok) return response;
  const isProblem = response.headers.get("Content-Type")?.startsWith("application/problem+json");
  throw new Problem(response.status, isProblem ? await response.json() : { detail: await response.text() });
}

async function call(method, path, body, headers = {}) {
  const response = await fetch(API + path, {
    method,
    headers: { ...authorization, "Content-Type": "application/json", ...headers },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
  });
  return (await checked(response)).json();
}

// Make schedule `id`, unless it is there: two programs that do so at once make one.
async function scheduleOnce(id, options) {
  try {
    return await call("PUT", `/schedules/${id}`, options, { "If-None-Match": "*" });
  } catch (error) {
    if (error.status !== 412) throw error;
    return { ...(await call("GET", `/schedules/${id}`)), outcome: "kept" };
  }
}

// Yield the events after `lastId`, for ever. A service stores the last id beside what it has done with the event.
async function* events(lastId) {
  for (;;) {
    try {
      const headers = lastId ? { ...authorization, "Last-Event-ID": lastId } : authorization;
      const response = await checked(await fetch(`${API}/events`, { headers }));
      let text = "";
      for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
        const blocks = (text + part).split("\n\n");
        text = blocks.pop(); // the beginning of the next event
        for (const block of blocks) {
          const lines = block.split("\n").map((line) => line.split(/: ?(.*)/s, 2));
          const { id, event = "message", data } = Object.fromEntries(lines);
          if (id) lastId = id;
          if (data) yield { event, data: JSON.parse(data) };
        }
      }
    } catch (error) {
      if (error.status < 500) throw error; // such as a revoked token; anything else may pass
    }
    await new Promise((again) => setTimeout(again, 1000));
  }
}

try {
  const at = new Date(Date.now() + 3_600_000).toISOString();
  const options = { func: "tasks.remind", args: [42, "it comes today"], at, queue: "shop-mail" };
  const { id, outcome, next_at } = await scheduleOnce("reminder-42", options);
  console.log(`${id}: ${outcome}, next ${next_at}`);
  for await (const { event, data } of events()) {
    if (event === "reset") console.log("changes are missing: read again what you show");
    else for (const { id, what } of data.changes) console.log(`${id}: ${what}`);
  }
} catch (error) {
  console.error(error instanceof Problem ? `${error.message} (${error.type})` : error);
  process.exitCode = 1;
}
