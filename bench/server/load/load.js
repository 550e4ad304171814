// The k6 script of `make load`: users of all tiers send requests, and most of them stay within
// their limits. k6 writes a line of CSV for each request, with the user in its metadata. From these
// lines, the checker judges all answers when k6 has finished.
import http from 'k6/http';
import { sleep } from 'k6';
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';

// Counts the answers that are marked as given without Redis. Each such answer adds a line to the CSV
// after the line of its request.
const degraded = new Counter('degraded');

const seconds = Number(__ENV.SECONDS);
const scale = Number(__ENV.VUS) / 1000;

// The kinds of users: `vus` of 1,000 virtual users are of this kind, and each sends `requests`
// requests, spread over the whole time. The limits are those of examples/tiers. A user over a limit
// has fewer than 100 requests denied in a minute, because 100 would lead to a ban.
const kinds = {
  internal: { vus: 10, requests: 600, as: service },
  enterprise: { vus: 100, requests: 150, as: plan('enterprise') },
  pro: { vus: 240, requests: 100, as: plan('pro') },
  free: { vus: 487, requests: 25, as: plan('free') },
  anonymous: { vus: 100, requests: 10, as: address },
  pro_over: { vus: 5, requests: 390, as: plan('pro') }, // 300 are admitted
  free_over: { vus: 33, requests: 120, as: plan('free') }, // 60 are admitted
  anonymous_over: { vus: 10, requests: 60, as: address }, // 20 are admitted
  simulate_over: { vus: 15, requests: 40, as: plan('pro'), simulate: true }, // 10 are admitted
};

export const options = {
  discardResponseBodies: true,
  systemTags: ['status', 'name', 'error_code'],
  scenarios: Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => [
      name,
      {
        executor: 'per-vu-iterations',
        vus: Math.max(1, Math.round(kind.vus * scale)),
        iterations: kind.requests,
        maxDuration: `${seconds + 60}s`,
        gracefulStop: '10s',
      },
    ]),
  ),
};

// Each request has an equal part of the time and is sent at a random moment in it.
export default function () {
  const kind = kinds[exec.scenario.name];
  const due = exec.scenario.startTime + ((exec.vu.iterationInScenario + Math.random()) * seconds * 1000) / kind.requests;
  sleep(Math.max(0, due - Date.now()) / 1000);

  const id = exec.vu.idInTest;
  const { user, headers } = kind.as(id);
  exec.vu.metrics.metadata.user = user;
  const tags = { name: kind.simulate ? 'simulation' : 'search' };
  const answer = kind.simulate
    ? http.post(`${__ENV.TARGET}/api/simulation/start`, null, { headers, tags })
    : http.get(`${__ENV.TARGET}/api/search`, { headers, tags });
  if (answer.headers['X-Ratelimit-Degraded']) {
    degraded.add(1, { ...tags, status: `${answer.status}` });
  }
}

// plan, service and address return the user in two forms: as the checker names it, tier first, and
// as the header fields that a proxy sends.
function plan(name) {
  return (id) => ({ user: `${name}:${id}`, headers: { 'X-User-ID': `${id}`, 'X-User-Plan': name } });
}

function service(id) {
  return { user: `internal:${id}`, headers: { 'X-Service': `service-${id}` } };
}

function address(id) {
  return { user: `anonymous:${id}`, headers: { 'X-Forwarded-For': `198.51.${100 + (id >> 8)}.${id & 255}` } };
}
