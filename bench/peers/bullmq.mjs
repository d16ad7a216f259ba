// BullMQ's part of the benchmark: one task per call, asked by a JSON argument, answered by JSON on stdout.
//
//   bulk       {count}            -> {seconds}              addBulk of delayed jobs, 1,000 a call
//   dispatch   {count}            -> {seconds, count}       due delayed jobs -> wait list, 1,000 a script
//   upsert     {count}            -> {seconds}              job schedulers, 1,000 calls in flight
//   recurring  {count}            -> {seconds, count}       job schedulers due at once, until each was processed
//   lateness   {per_s, seconds}   -> {late_ms: [...]}       delayed jobs, due until a worker has them
//
// What moves BullMQ's delayed jobs is the script with which a worker asks for its next job.

import { createRequire } from 'node:module';
import { join } from 'node:path';

const asked = JSON.parse(process.argv[2]);
const require = createRequire(join(asked.modules, 'bench.js'));
const { Queue, Worker } = require('bullmq');
const { hostname: host, port } = new URL(asked.url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue('bench', { connection });
const PER_CALL = 1000;
const FAR_MS = 7 * 86_400_000;

const seconds = (since) => Number(process.hrtime.bigint() - since) / 1e9;
const reminder = (n, delay) => ({
  name: 'app.tasks.send_reminder',
  data: [123456, 'email'],
  opts: { delay, jobId: `reminder-${String(n).padStart(6, '0')}` },
});

async function insert(count, delayOf) {
  for (let start = 0; start < count; start += PER_CALL) {
    const size = Math.min(PER_CALL, count - start);
    await queue.addBulk(Array.from({ length: size }, (_, i) => reminder(start + i, delayOf(start + i))));
  }
}

async function bulk({ count }) {
  await queue.waitUntilReady();
  const since = process.hrtime.bigint();
  await insert(count, () => FAR_MS);
  return { seconds: seconds(since) };
}

const cron = (n) => `${(n % 1440) % 60} ${Math.floor((n % 1440) / 60)} * * *`;

async function upsertAll(count, repeatOf) {
  for (let start = 0; start < count; start += PER_CALL) {
    const size = Math.min(PER_CALL, count - start);
    await Promise.all(Array.from({ length: size }, (_, i) => queue.upsertJobScheduler(
      `schedule-${start + i}`, repeatOf(start + i), { name: 'send', data: [123456, 'email'] })));
  }
}

async function upsert({ count }) {
  await queue.waitUntilReady();
  const since = process.hrtime.bigint();
  await upsertAll(count, (n) => ({ pattern: cron(n), tz: 'UTC' }));
  return { seconds: seconds(since) };
}

async function dispatch({ count }) {
  const worker = new Worker('bench', async () => {}, { connection, autorun: false });
  await worker.waitUntilReady();
  await worker.getNextJob('bench', { block: false }); // loads the script
  await insert(count, () => 1);
  const since = process.hrtime.bigint();
  for (let n = 0; n < Math.ceil(count / PER_CALL); n++) await worker.getNextJob('bench', { block: false });
  const took = seconds(since);
  const counts = await queue.getJobCounts('wait', 'active');
  await worker.close();
  return { seconds: took, count: counts.wait + counts.active };
}

async function recurring({ count }) {
  const due = Date.now() + 1000 + count * 0.5;
  await upsertAll(count, () => ({ every: 86_400_000, startDate: due }));
  await new Promise((resolve) => setTimeout(resolve, Math.max(due - Date.now(), 0) + 100));
  const ran = new Set();
  let end;
  const all = new Promise((resolve) => { end = resolve; });
  const since = process.hrtime.bigint();
  const worker = new Worker('bench', async (job) => {
    ran.add(job.repeatJobKey);
    if (ran.size === count) end();
  }, { connection, concurrency: 500, removeOnComplete: { count: 0 } });
  await all;
  const took = seconds(since);
  await worker.close(true);
  return { seconds: took, count: ran.size };
}

async function lateness({ per_s: perS, seconds: length }) {
  const count = perS * length;
  const first = Date.now() + 1500 + count * 0.1;
  const dueOf = (n) => Math.round(first + (n * 1000) / perS);
  await insert(count, (n) => dueOf(n) - Date.now());
  const late = [];
  let end;
  const all = new Promise((resolve) => { end = resolve; });
  const worker = new Worker('bench', async (job) => {
    late.push(job.processedOn - dueOf(Number(job.id.split('-')[1])));
    if (late.length === count) end();
  }, { connection, concurrency: 100 });
  await all;
  await worker.close(true);
  return { late_ms: late };
}

const answer = await { bulk, upsert, dispatch, recurring, lateness }[asked.task](asked);
process.stdout.write(JSON.stringify(answer), () => process.exit(0));
