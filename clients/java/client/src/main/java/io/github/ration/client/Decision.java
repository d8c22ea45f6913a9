// SPDX-License-Identifier: Apache-2.0
// A decision: what rationd has answered, or the policy in its place, and how to tell an HTTP client.

package io.github.ration.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * What rationd has decided about a request, or the policy in its place. What rationd has not said is null, a time that it has not
 * said of {@link #delay} and {@link #waited} is zero.
 */
public final class Decision {
    private static final long INTEGER_MAX = 999_999_999_999_999L; // of structured fields, RFC 9651
    private static final int MOST_LIMITS = 64;
    private static final double MOST_DELAY = 86_400; // seconds
    private static final String TYPES = "https://iana.org/assignments/http-problem-types#";
    private static final Map<String, List<String>> PROBLEMS = Map.of( // by error: type and title of the problem document
            "rate_limited", List.of(TYPES + "quota-exceeded", "Too Many Requests"),
            "denied", List.of("about:blank", "Forbidden"),
            "banned", List.of(TYPES + "abnormal-usage-detected", "Too Many Requests"),
            "paused", List.of(TYPES + "temporary-reduced-capacity", "Temporary Reduced Capacity"),
            "unavailable", List.of("about:blank", "Service Unavailable"));
    private static final Map<String, Class<?>> TYPES_OF_MEMBERS = typesOfMembers(Map.of(
            Boolean.class, List.of("allowed", "soft", "shadow", "banned", "paused"),
            String.class, List.of("rule", "lease", "charge", "headers", "by", "message"),
            Long.class, List.of("level", "status", "decided_by"),
            Number.class, List.of("limit", "remaining", "reset_after", "retry_after", "delay", "waited", "amount", "period"),
            List.class, List.of("limits")));
    private static final Set<String> NULLABLE = Set.of("rule", "limit", "remaining", "reset_after", "retry_after", "delay", "period");
    private static final List<String> OF_LIMIT = List.of("rule", "limit", "remaining", "reset_after");
    private static final List<String> NUMBERS = List.of("allowed", "rule", "limit", "remaining", "reset_after", "retry_after", "delay");

    /** Of a refusal, for the HTTP client. */
    public record Body(String contentType, byte[] content) {}

    private final Map<String, Object> members;
    private final List<Map<String, Object>> limits;
    private final String why;
    private final double at = System.currentTimeMillis() / 1000.0;

    /** {@code why}: null of a decision by rationd. */
    @SuppressWarnings("unchecked")
    Decision(Map<String, Object> members, String why) {
        this.members = members;
        this.limits = (List<Map<String, Object>>) members.get("limits");
        this.why = why;
    }

    @SuppressWarnings("unchecked")
    static Decision read(Object reply) throws BadAnswer {
        if (!(reply instanceof Map<?, ?> map) || !hasShape(map, NUMBERS) || !(map.get("limits") instanceof List<?> limits)) {
            throw new BadAnswer("no decision: " + BadAnswer.found(reply));
        }
        boolean refused = Boolean.FALSE.equals(map.get("allowed"));
        if (limits.size() > MOST_LIMITS || !isWithin(map.get("delay"), 0, MOST_DELAY)
                || refused && !isWithin(map.get("status"), 400, 599)) {
            throw new BadAnswer("no decision: " + BadAnswer.found(reply));
        }
        for (Object limit : limits) {
            if (!(limit instanceof Map<?, ?> one) || !hasShape(one, OF_LIMIT)) {
                throw new BadAnswer("a limit is none: " + BadAnswer.found(limit));
            }
        }
        return new Decision((Map<String, Object>) map, null);
    }

    private static boolean isWithin(Object number, double least, double most) {
        return number == null || seconds(number) >= least && seconds(number) <= most;
    }

    private static Map<String, Class<?>> typesOfMembers(Map<Class<?>, List<String>> names) {
        Map<String, Class<?>> types = new HashMap<>();
        names.forEach((type, each) -> each.forEach(name -> types.put(name, type)));
        return types;
    }

    private static boolean hasShape(Map<?, ?> map, List<String> needed) {
        for (Map.Entry<?, ?> member : map.entrySet()) {
            Class<?> type = TYPES_OF_MEMBERS.get(member.getKey());
            Object value = member.getValue();
            if (type != null && (value == null ? !NULLABLE.contains(member.getKey()) : !type.isInstance(value))) {
                return false;
            }
        }
        return map.keySet().containsAll(needed);
    }

    public boolean allowed() {
        return is("allowed");
    }

    /** The rule that decided; null if none applied, or the limit came with the request. */
    public String rule() {
        return text("rule");
    }

    public Long limit() {
        return integer(members, "limit");
    }

    public Long remaining() {
        return integer(members, "remaining");
    }

    public Duration resetAfter() {
        return time(members.get("reset_after"));
    }

    /** Zero of an admission; null: this request will never be admitted. */
    public Duration retryAfter() {
        return time(members.get("retry_after"));
    }

    /** To be waited for before going ahead: queues and throttling. The client does not sleep; middleware does. */
    public Duration delay() {
        return orZero(members.get("delay"));
    }

    /** How long the request has stood in line. */
    public Duration waited() {
        return orZero(members.get("waited"));
    }

    /** Every limit that applied, in the order of the rules. */
    public List<Limit> limits() {
        return limits.stream().map(one -> new Limit((String) one.get("rule"), integer(one, "limit"), integer(one, "remaining"),
                time(one.get("reset_after")))).toList();
    }

    /** Admitted above the limit as written. */
    public boolean soft() {
        return is("soft");
    }

    /** Admitted, although a rule in shadow mode would have refused. */
    public boolean shadow() {
        return is("shadow");
    }

    public boolean banned() {
        return is("banned");
    }

    public boolean paused() {
        return is("paused");
    }

    /** Of a ban by a rule, from 1 on. */
    public Long level() {
        return integer(members, "level");
    }

    /** For release, renew, commit and refund, which take null, too. */
    public String lease() {
        return text("lease");
    }

    /** For report, which takes null, too. */
    public String charge() {
        return text("charge");
    }

    /** The status of HTTP: 200, or that of the refusal. */
    public int status() {
        Long status = integer(members, "status");
        return allowed() ? 200 : status == null ? 429 : status.intValue();
    }

    /** Of a refusal rate_limited, denied, banned, paused or unavailable; else null. */
    public String error() {
        if (allowed()) {
            return null;
        }
        String by = text("by");
        return banned() ? "banned" : paused() ? "paused" : "deny".equals(by) ? "denied" : "unavailable".equals(by) ? by : "rate_limited";
    }

    /** "rationd", or "policy". */
    public String by() {
        return why == null ? "rationd" : "policy";
    }

    /** Of a decision by policy, a sentence for logs; else empty. */
    public String why() {
        return why == null ? "" : why;
    }

    /** The headers of the response, in the order of docs/headers.md. */
    public Map<String, String> headers() {
        String family = members.get("headers") instanceof String text ? text : "both";
        boolean x = family.equals("both") || family.equals("x");
        boolean ietf = family.equals("both") || family.equals("ietf");
        String retry = allowed() || retryAfter() == null ? null : Long.toString(secondsToRetry());
        List<String> names = namesOfLimits();
        List<String> policies = new ArrayList<>();
        List<String> states = new ArrayList<>();
        for (int i = 0; i < limits.size(); i++) {
            Map<String, Object> one = limits.get(i);
            if (one.get("limit") != null && !Boolean.TRUE.equals(one.get("shadow"))) {
                states.add(stateOf(names.get(i), one));
                if (one.containsKey("amount")) {
                    policies.add(policyOf(names.get(i), one));
                }
            }
        }
        boolean shown = !states.isEmpty();
        Map<String, String> headers = new LinkedHashMap<>();
        put(headers, "X-RateLimit-Limit", x && shown ? text(limit()) : null);
        put(headers, "X-RateLimit-Remaining", x && shown && limit() != null ? text(remaining()) : null);
        put(headers, "X-RateLimit-Reset", x && shown && limit() != null ? text(reset()) : null);
        put(headers, is("retryafter") ? "X-RateLimit-RetryAfter" : "X-RateLimit-Retry-After", x ? retry : null);
        put(headers, "RateLimit-Policy", ietf && shown && policies.size() == states.size() ? String.join(", ", policies) : null);
        put(headers, "RateLimit", ietf && shown ? String.join(", ", states) : null);
        put(headers, "Retry-After", retry);
        put(headers, "X-RateLimit-Soft", soft() && !family.equals("none") ? "1" : null);
        put(headers, "X-RateLimit-Ban-Level", isPositive(level()) && retry != null && !family.equals("none") ? text(level()) : null);
        return Collections.unmodifiableMap(headers);
    }

    /** Of a refusal: JSON, or a problem document for those whose Accept header (or null) has one. */
    public Body body(String accept) {
        boolean problem = accept != null && accept.toLowerCase(Locale.ROOT).contains("application/problem+json");
        String error = allowed() ? "rate_limited" : error();
        Map<String, Object> body = new LinkedHashMap<>();
        if (problem) {
            body.put("type", PROBLEMS.get(error).get(0));
            body.put("title", isPositive(level()) ? "Abnormal Usage Detected" : PROBLEMS.get(error).get(1));
            body.put("status", status());
            body.put("detail", message());
            List<String> violated = violated();
            if (!violated.isEmpty()) {
                body.put("violated-policies", violated);
            }
        }
        NUMBERS.forEach(name -> body.put(name, members.get(name)));
        body.put("delay", members.getOrDefault("delay", 0));
        body.put("limits", limits.stream().map(Decision::shownLimit).toList());
        if (banned()) {
            body.put("banned", true);
        }
        if (paused()) {
            body.put("paused", true);
        }
        if (isPositive(level())) {
            body.put("level", level());
        }
        Map<String, Object> decisive = decisive();
        Object period = decisive == null ? null : decisive.get("period");
        body.put("error", error);
        body.put("window", period instanceof Number number && number.doubleValue() > 0 ? period : null);
        body.put("reset", decisive == null ? null : reset());
        if (!problem) {
            body.put("message", message());
        }
        return new Body(problem ? "application/problem+json" : "application/json", Json.of(body).getBytes(StandardCharsets.UTF_8));
    }

    /** The rule's own, or a sentence for people. */
    public String message() {
        String own = text("message");
        if (own != null && !own.isEmpty()) {
            return own;
        }
        if ("denied".equals(error())) {
            return "Requests like this one are not allowed.";
        }
        if (retryAfter() == null) {
            return "This request asks for more than its limit ever admits.";
        }
        String what = banned() ? "Banned for a while." : paused() ? "Requests of this key are paused."
                : "unavailable".equals(error()) ? "No decision could be made." : "Too many requests.";
        long seconds = secondsToRetry();
        return what + " Try again in " + seconds + (seconds > 1 ? " seconds." : " second.");
    }

    @Override
    public String toString() {
        return (allowed() ? "allowed" : "refused") + " by " + by() + " " + (rule() == null ? why() : rule());
    }

    // --- members --------------------------------------------------------------------------------

    private boolean is(String name) {
        return Boolean.TRUE.equals(members.get(name));
    }

    private String text(String name) {
        return (String) members.get(name);
    }

    private static Long integer(Map<String, Object> map, String name) {
        return map.get(name) instanceof Number number ? (Long) number.longValue() : null;
    }

    private static Duration time(Object seconds) {
        return seconds instanceof Number number ? Duration.ofNanos(Math.round(number.doubleValue() * 1e9)) : null;
    }

    private static Duration orZero(Object seconds) {
        return seconds == null ? Duration.ZERO : time(seconds);
    }

    private static boolean isPositive(Long number) {
        return number != null && number > 0;
    }

    private static double seconds(Object number) {
        return ((Number) number).doubleValue();
    }

    private static long roundedUp(double seconds) {
        return (long) Math.ceil(seconds);
    }

    private long secondsToRetry() {
        return Math.max(1, roundedUp(seconds(members.get("retry_after"))));
    }

    /** Unix time. */
    private Long reset() {
        return members.get("reset_after") instanceof Number after ? (Long) roundedUp(at + after.doubleValue()) : null;
    }

    /** The limit that decided, if it counts. */
    private Map<String, Object> decisive() {
        Long index = integer(members, "decided_by");
        boolean counted = index != null && index >= 0 && index < limits.size() && members.get("reset_after") != null;
        return counted ? limits.get(index.intValue()) : null;
    }

    // --- as text --------------------------------------------------------------------------------

    private static String text(Long number) {
        return number == null ? null : number.toString();
    }

    private static void put(Map<String, String> headers, String name, String value) {
        if (value != null) {
            headers.put(name, value);
        }
    }

    private static Map<String, Object> shownLimit(Map<String, Object> limit) {
        Map<String, Object> shown = new LinkedHashMap<>();
        OF_LIMIT.forEach(name -> shown.put(name, limit.get(name)));
        return shown;
    }

    private List<String> violated() {
        List<String> names = namesOfLimits();
        List<String> violated = new ArrayList<>();
        for (int i = 0; i < limits.size(); i++) {
            if (Boolean.FALSE.equals(limits.get(i).get("allowed")) && !Boolean.TRUE.equals(limits.get(i).get("shadow"))) {
                violated.add(names.get(i));
            }
        }
        return violated;
    }

    /** Each only once: the second limit of a rule is "api-2", unless a rule is really called so. */
    private List<String> namesOfLimits() {
        List<String> rules = limits.stream().map(limit -> printable((String) limit.get("rule"))).toList();
        List<String> names = new ArrayList<>();
        for (int i = 0; i < rules.size(); i++) {
            String rule = rules.get(i);
            String name = rule;
            List<String> rest = rules.subList(i + 1, rules.size());
            for (int n = 2; names.contains(name) || !name.equals(rule) && rest.contains(name); n++) {
                name = rule + "-" + n;
            }
            names.add(name);
        }
        return names;
    }

    private static String printable(String rule) {
        return rule == null || rule.isEmpty() ? "default" : rule.codePoints()
                .mapToObj(c -> c >= ' ' && c <= '~' ? String.valueOf((char) c) : "?").collect(Collectors.joining());
    }

    private static String policyOf(String name, Map<String, Object> limit) {
        double quota = seconds(limit.get("limit"));
        double amount = seconds(limit.get("amount"));
        double period = limit.get("period") == null ? 0 : seconds(limit.get("period"));
        String item = quoted(name) + ";q=" + Math.min(integer(limit, "limit"), INTEGER_MAX);
        if (period == 0) {
            return item + ";qu=\"concurrent-requests\"";
        }
        double window = amount != 0 && amount != quota ? quota * period / amount : period;
        return item + ";w=" + Math.min(roundedUp(Math.rint(window * 1e6) / 1e6), INTEGER_MAX);
    }

    private static String stateOf(String name, Map<String, Object> limit) {
        Long remaining = integer(limit, "remaining");
        String item = quoted(name) + ";r=" + (remaining == null ? 0 : Math.min(remaining, INTEGER_MAX));
        return limit.get("reset_after") == null ? item : item + ";t=" + roundedUp(seconds(limit.get("reset_after")));
    }

    private static String quoted(String name) {
        return '"' + name.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
