// What k6 does in `make load`: users of all tiers, most of whom keep to their limits. Every request leaves a line in k6's
// CSV output, with the user in its metadata, by which the checker judges all answers afterwards.
import http from 'k6/http';
import { sleep } from 'k6';
import exec from 'k6/execution';
import { Counter } from 'k6/metrics';

// Answers that say that they were given without Redis: a line each, after that of the request.
const degraded = new Counter('degraded');

const seconds = Number(__ENV.SECONDS);
const scale = Number(__ENV.VUS) / 1000;

// Of 1,000 virtual users so many are of a kind, each of whom sends so many requests, spread over the whole time. Limits are
// those of examples/tiers; a user who is over one has fewer than 100 requests denied in a minute, which would be a ban.
const kinds = {
  internal: { vus: 10, requests: 600, as: service },
  enterprise: { vus: 100, requests: 150, as: plan('enterprise') },
  pro: { vus: 240, requests: 100, as: plan('pro') },
  free: { vus: 487, requests: 25, as: plan('free') },
  anonymous: { vus: 100, requests: 10, as: address },
  pro_over: { vus: 5, requests: 390, as: plan('pro') }, // 300 are admitted
  free_over: { vus: 33, requests: 120, as: plan('free') }, // 60
  anonymous_over: { vus: 10, requests: 60, as: address }, // 20
  simulate_over: { vus: 15, requests: 40, as: plan('pro'), simulate: true }, // 10
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

// Each request has its share of the time, and is sent somewhere in it.
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

// Who asks, as the checker knows it, tier first; and as the proxy says it in header fields.
function plan(name) {
  return (id) => ({ user: `${name}:${id}`, headers: { 'X-User-ID': `${id}`, 'X-User-Plan': name } });
}

function service(id) {
  return { user: `internal:${id}`, headers: { 'X-Service': `service-${id}` } };
}

function address(id) {
  return { user: `anonymous:${id}`, headers: { 'X-Forwarded-For': `198.51.${100 + (id >> 8)}.${id & 255}` } };
}
