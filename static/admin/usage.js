// How much was used, by day in charts, and by tenant and language in a table.

import { byId } from "../app/dom.js";
import { ask } from "./api.js";
import { chart, daysBetween } from "./chart.js";
import { name, number, Rows } from "./rows.js";
import { offerTenants } from "./tenants.js";
import { bytes, span } from "./text.js";

const [from, to, tenant] = ["usage-from", "usage-to", "usage-tenant"].map(byId);

const ok = ({ runs }) => runs.ok ?? 0;
const all = ({ runs }) => Object.values(runs).reduce((sum, count) => sum + count, 0);

const rows = new Rows("usage", (each) => JSON.stringify([each.tenant, each.language]), (each) => [
  name(each.tenant), name(each.language ?? "–"), number(String(all(each))), number(String(all(each) - ok(each))), number(span(each.cpuMs)),
  number(span(each.wallMs)), number(String(each.installs)), number(bytes(each.uploadedBytes)), number(bytes(each.downloadedBytes)),
]);

/** Asks again and shows it. */
export async function refreshUsage() {
  const params = { from: from.value, to: to.value, tenant: tenant.value };
  const [byDay, byTenant] = await Promise.all([
    ask("usage", { params: { ...params, group: "day" } }),
    ask("usage", { params: { ...params, group: "tenant,language" } }),
  ]);
  // The server chooses days where none are given.
  from.value ||= byDay.from;
  to.value ||= byDay.to;
  const days = daysBetween(byDay.from, byDay.to);
  const values = (of) => new Map(byDay.usage.map((each) => [each.day, of(each)]));
  const runs = [
    { name: "ok", label: "ok", values: values(ok) },
    { name: "not-ok", label: "not ok", values: values((each) => all(each) - ok(each)) },
  ];
  byId("chart-runs").replaceChildren(...chart(days, runs, "Runs"));
  const cpu = [{ name: "ok", label: "of processor time", values: values((each) => each.cpuMs) }];
  byId("chart-cpu").replaceChildren(...chart(days, cpu, "Processor time", span));
  rows.show(byTenant.usage);
}

/** Puts the tenants into the list. */
export const beginUsage = () => offerTenants("usage-tenant");

/** Connects the view. */
export function connectUsage(refresh) {
  byId("usage-form").onsubmit = (event) => event.preventDefault();
  for (const field of [from, to, tenant]) field.onchange = refresh;
}
