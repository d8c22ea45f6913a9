// SPDX-License-Identifier: Apache-2.0
// Rules that tests begin with.

export const RULES = `limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per minute
    algorithm: sliding-log
    escalate: { after: 10 refusals within 1m, ban: 1h, grow: 4x, up_to: 24h, forget: 7d }
  - name: api
    when: { path: /api/** }
    key: api_key
    limit:
      by: tier
      free: 100 per hour
      pro: 10000 per hour burst 500
      default: free
    usage: { per: month }
  - name: search
    when: { path: /search }
    key: ip
    limit: 3 per hour
    mode: shadow
`;

export const TOKENS = (folder) => `server:
  tokens:
    ops-anna: { token_file: ${folder}/admin, scope: admin }
    grafana: { token_file: ${folder}/read, scope: read }
    prometheus: { token_file: ${folder}/metrics, scope: metrics }
`;

/** As many rules as somebody with many teams has. */
export function manyRules(count) {
    const rows = Array.from(
        { length: count },
        (_, i) =>
            `  - { name: rule-${String(i).padStart(5, '0')}, when: { path: /p${i} }, key: ip, limit: ${i + 1} per minute }`,
    );
    return `limits:\n${rows.join('\n')}\n`;
}
