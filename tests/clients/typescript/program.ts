// A program that uses each kind of route by a client of openapi-typescript and openapi-fetch: no type is asserted, and
// nothing is any. Start: URL=http://127.0.0.1:9180 TOKEN=zs_… node program.js. It prints what it saw.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Problem = components["schemas"]["Problem"];
const { URL: baseUrl, TOKEN: token } = process.env;
const headers = { Authorization: `Bearer ${token}` };
const client = createClient<paths>({ baseUrl: baseUrl ?? "", headers });

/** Return the answer, or fail with the problem's text. */
function demand<T>(answer: { data?: T; error?: Problem }): T {
  if (answer.data === undefined) {
    throw new Error(answer.error?.detail ?? "no answer");
  }
  return answer.data;
}

/** Yield the entries of the log after an event, as they come. */
async function* entries(after: string, ended: AbortController): AsyncGenerator<components["schemas"]["Entry"]> {
  const stream = await client.GET("/api/v1/events", {
    params: { header: { "Last-Event-ID": after } },
    parseAs: "stream",
    signal: ended.signal,
  });
  let text = "";
  for await (const part of demand<ReadableStream<Uint8Array> | null>(stream) ?? []) {
    const blocks = (text + new TextDecoder().decode(part)).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data !== undefined && !/^event: /m.test(block)) {
        yield JSON.parse(data);
      }
    }
  }
}

const params = { path: { id: "digest" } };
const options = { func: "app.x", cron: "0 9 * * *", tz: "Asia/Seoul", tags: ["shop"], args: [1, { a: null }] };
const created = await client.PUT("/api/v1/schedules/{id}", { params, body: options });
const outcome: string = demand(created).outcome;

const rows = [1, 2, 3, 4, 5].map((number) => ({ id: `row-${number}`, func: "app.x", every: 60 }));
const batch = demand(await client.POST("/api/v1/schedules:batch", { body: [...rows, { func: "app.x", every: 0 }] }));
const refused = (Array.isArray(batch) ? batch : [batch]).flatMap((row) => (row.error ? [row.error.option] : []));

const ids: string[] = [];
let token_: string | null = null;
do {
  const query: { match: string; page_size: number; page_token: string | null } =
    { match: "row-*", page_size: 2, page_token: token_ };
  const page: { schedules: { id: string }[]; next_page_token: string | null } =
    demand(await client.GET("/api/v1/schedules", { params: { query } }));
  ids.push(...page.schedules.map((schedule) => schedule.id));
  token_ = page.next_page_token;
} while (token_ !== null);

const read = await client.GET("/api/v1/schedules/{id}", { params });
const tag = read.response.headers.get("ETag") ?? "";
const conditional = { path: params.path, header: { "If-Match": tag } };
const updated = await client.PATCH("/api/v1/schedules/{id}", { params: conditional, body: { queue: "mail" } });
const stale = await client.PATCH("/api/v1/schedules/{id}", { params: conditional, body: { queue: "other" } });
const known = { path: params.path, header: { "If-None-Match": tag } };

const paused = demand(await client.POST("/api/v1/schedules:pause", { body: { filter: { tag: "shop" }, note: "rest" } }));
const [first] = demand(await client.GET("/api/v1/log", { params: { query: { limit: 1 } } })).entries;
const cancelled = await client.DELETE("/api/v1/schedules/{id}", { params });
const gone = await client.GET("/api/v1/schedules/{id}", { params });

const seen: string[] = [];
const ended = new AbortController();
for await (const entry of entries(process.argv[2] ?? "", ended)) {
  seen.push(...entry.changes.map((change) => `${change.what} ${change.id}`));
  if (seen.includes("cancelled digest")) {
    break;
  }
}
ended.abort();

console.log(JSON.stringify({
  created: [created.response.status, outcome],
  refused,
  ids,
  updated: [updated.response.status, stale.response.status, stale.error?.type],
  changed: (await client.GET("/api/v1/schedules/{id}", { params: known })).response.status,
  paused: paused.done,
  newest: first?.changes[0]?.what,
  cancelled: [cancelled.response.status, cancelled.data?.outcome, gone.response.status],
  seen,
}));
