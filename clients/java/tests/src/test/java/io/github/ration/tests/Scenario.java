// SPDX-License-Identifier: Apache-2.0
// Executes one scenario of clients/scenarios.yaml, whose head explains the grammar.

package io.github.ration.tests;

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.function.Supplier;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

final class Scenario {
    static final Map<String, Object> TABLE = table();
    private static final Map<String, Object> DEFAULTS = Map.of("deadline", 5.0, "connections", 1, "failures", 1000);
    private static final double PATIENCE = 30;
    private static final Map<String, Function<Decision, Object>> MEMBERS = Map.ofEntries(
            Map.entry("allowed", Decision::allowed), Map.entry("rule", Decision::rule), Map.entry("limit", Decision::limit),
            Map.entry("remaining", Decision::remaining), Map.entry("reset_after", d -> seconds(d.resetAfter())),
            Map.entry("retry_after", d -> seconds(d.retryAfter())), Map.entry("delay", d -> seconds(d.delay())),
            Map.entry("soft", Decision::soft), Map.entry("shadow", Decision::shadow), Map.entry("banned", Decision::banned),
            Map.entry("paused", Decision::paused), Map.entry("level", Decision::level), Map.entry("waited", d -> seconds(d.waited())),
            Map.entry("status", Decision::status), Map.entry("error", Decision::error), Map.entry("by", Decision::by),
            Map.entry("message", Decision::message), Map.entry("lease", d -> d.lease() != null),
            Map.entry("charge", d -> d.charge() != null));

    private final Map<String, Object> scenario;
    private final Sites.Maker framework; // null: the client itself
    private final List<String> events = Collections.synchronizedList(new ArrayList<>());
    private final Map<String, Decision> remembered = new HashMap<>();
    private final Path folder;
    private Rationd rationd;
    private FakeRationd fake;
    private RationClient client;
    private Sites.Site site;

    private Scenario(Map<String, Object> scenario, Sites.Maker framework) throws IOException {
        this.scenario = scenario;
        this.framework = framework;
        this.folder = Files.createTempDirectory("ration-scenario");
    }

    static void run(Map<String, Object> scenario, Sites.Maker framework) throws Exception {
        Scenario run = new Scenario(scenario, framework);
        if (scenario.containsKey("wrong")) {
            try {
                check(scenario.get("wrong"), messageOf(() -> run.makeClient("ration://127.0.0.1:1")));
            } finally {
                Files.delete(run.folder);
            }
            return;
        }
        try {
            run.makeSubject(run.startServer());
            for (Map<String, Object> step : list(scenario.get("steps"))) {
                run.take(step);
            }
        } finally {
            run.close();
        }
    }

    // --- requests and the clients that send them -----------------------------------------------------------------

    @SuppressWarnings("unchecked")
    private static Map<String, Object> table() {
        try {
            return (Map<String, Object>) parse(Files.readString(Rationd.ROOT.resolve("clients/scenarios.yaml")));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** YAML, and JSON, which is YAML, too. */
    private static Object parse(String text) {
        return new Yaml(new SafeConstructor(new LoaderOptions())).load(text);
    }

    @SuppressWarnings("unchecked")
    static List<Map<String, Object>> list(Object value) {
        return (List<Map<String, Object>>) value;
    }

    @SuppressWarnings("unchecked")
    private static <T> Map<String, T> map(Object value) {
        return value == null ? Map.of() : (Map<String, T>) value;
    }

    private String startServer() throws IOException {
        if (scenario.containsKey("fake")) {
            fake = new FakeRationd(map(scenario.get("fake")), map(TABLE.get("bytes")));
            return fake.url;
        }
        Object server = scenario.get("server");
        String place = "unix".equals(server) ? "unix:" + folder + "/resp.sock" : "127.0.0.1:" + Rationd.freePort();
        if ("none".equals(server)) {
            return "ration://" + place;
        }
        String rules = (String) scenario.getOrDefault("rules", TABLE.get("rules"));
        if (scenario.containsKey("token")) {
            rules += "server: {admin_token: " + scenario.get("token") + ", trust_local: false}\n";
        }
        rationd = new Rationd(place, rules);
        return rationd.url;
    }

    private void makeSubject(String url) {
        if (framework == null) {
            client = makeClient(url);
        } else {
            Map<String, Object> app = map(scenario.get("app"));
            site = framework.make(builder -> configure(builder, url), (String) app.get("skip"), duration(app.get("wait")));
        }
    }

    private RationClient makeClient(String url) {
        RationClient.Builder builder = RationClient.builder();
        configure(builder, url);
        return builder.build();
    }

    private void configure(RationClient.Builder builder, String url) {
        Map<String, Object> settings = new HashMap<>(DEFAULTS);
        settings.put("url", url);
        settings.putAll(map(scenario.get("client")));
        settings.forEach((name, value) -> set(builder, name, value));
        builder.onEvent((name, detail) -> events.add(name));
    }

    private static void set(RationClient.Builder builder, String name, Object value) {
        switch (name) {
            case "url" -> builder.url((String) value);
            case "policy" -> builder.policy((String) value);
            case "deadline" -> builder.deadline(duration(value));
            case "connections" -> builder.connections((Integer) value);
            case "failures" -> builder.failures((Integer) value);
            case "silence" -> builder.silence((Integer) value);
            case "token" -> builder.token((String) value);
            case "probe_first" -> builder.probeFirst(duration(value));
            case "probe_most" -> builder.probeMost(duration(value));
            case "local_key" -> builder.localKey(((List<?>) value).toArray(String[]::new));
            default -> throw new IllegalStateException("no such setting: " + name);
        }
    }

    private static Duration duration(Object seconds) {
        return seconds == null ? null : Duration.ofNanos(Math.round(((Number) seconds).doubleValue() * 1e9));
    }

    private static Double seconds(Duration duration) {
        return duration == null ? null : (Double) (duration.toNanos() / 1e9);
    }

    private void close() throws IOException {
        if (client != null) {
            client.close();
        }
        if (site != null) {
            site.close();
        }
        if (fake != null) {
            fake.close();
        }
        if (rationd != null) {
            rationd.close();
        }
        Files.deleteIfExists(folder.resolve("resp.sock"));
        Files.deleteIfExists(folder.resolve("resp.sock.lock"));
        Files.delete(folder);
    }

    // --- steps --------------------------------------------------------------------------------------

    private void take(Map<String, Object> step) throws Exception {
        if (step.containsKey("freeze")) {
            rationd.freeze();
        } else if (step.containsKey("thaw")) {
            rationd.thaw();
        } else if (step.containsKey("kill")) {
            rationd.kill();
        } else if (step.containsKey("start")) {
            rationd.start();
        } else if (step.containsKey("events")) {
            List<?> wanted = (List<?>) step.get("events");
            Rationd.waitFor("events " + wanted, () -> isSubsequence(wanted, List.copyOf(events)));
        } else if (step.containsKey("wrong")) {
            check(step.get("wrong"), messageOf(() -> call(step)));
        } else {
            ask(step);
        }
    }

    private void ask(Map<String, Object> step) throws Exception {
        List<Object> answers = answers(step);
        if (step.containsKey("expect")) {
            List<String> faults = new ArrayList<>();
            answers.forEach(answer -> faults.addAll(faultsOf(step.get("expect"), answer)));
            if (!faults.isEmpty()) {
                throw new AssertionError(step + ": " + faults + ", events " + events);
            }
        }
        if (step.containsKey("allowed")) {
            check(step.get("allowed").toString(), Long.toString(answers.stream().filter(a -> ((Decision) a).allowed()).count()));
        }
        if (step.containsKey("as")) {
            remembered.put((String) step.get("as"), (Decision) answers.get(answers.size() - 1));
        }
    }

    /** All answers; of `until` the last one. */
    private List<Object> answers(Map<String, Object> step) throws InterruptedException, ExecutionException {
        int together = (Integer) step.getOrDefault("together", 0);
        if (together > 0) {
            ExecutorService pool = Executors.newFixedThreadPool(together);
            try {
                List<Object> answers = new ArrayList<>();
                for (Future<Object> one : pool.invokeAll(Collections.nCopies(together, () -> timed(step)))) {
                    answers.add(one.get());
                }
                return answers;
            } finally {
                pool.shutdown();
            }
        }
        if (!step.containsKey("until")) {
            List<Object> answers = new ArrayList<>();
            for (int i = 0; i < (Integer) step.getOrDefault("times", 1); i++) {
                answers.add(timed(step));
            }
            return answers;
        }
        long began = System.nanoTime();
        Object answer = timed(step);
        while (!faultsOf(step.get("expect"), answer).isEmpty() && System.nanoTime() - began < PATIENCE * 1e9) {
            Rationd.pause(20);
            answer = timed(step);
        }
        return Collections.singletonList(answer);
    }

    private Object timed(Map<String, Object> step) {
        long began = System.nanoTime();
        Object answer = call(step);
        double took = (System.nanoTime() - began) / 1e9;
        if (step.get("within") instanceof Number most && took > most.doubleValue()) {
            throw new AssertionError(step + " took " + took + " s");
        }
        return answer;
    }

    /** A decision, a response, a number, a boolean, or null. */
    private Object call(Map<String, Object> step) {
        long cost = ((Number) step.getOrDefault("cost", 1)).longValue();
        Duration seconds = duration(step.get("seconds"));
        if (step.get("request") instanceof List<?> request) {
            return site.ask((String) request.get(0), (String) request.get(1), map(step.get("headers")));
        }
        if (step.containsKey("check")) {
            return client.check(attributes(step.get("check")), cost, duration(step.get("wait")), step.containsKey("lease"));
        }
        if (step.get("take") instanceof List<?> take) {
            return client.take((String) take.get(0), (String) take.get(1), cost);
        }
        if (step.containsKey("acquire")) {
            return step.get("acquire") instanceof List<?> words
                    ? client.acquire((String) words.get(0), (String) words.get(1), cost, seconds)
                    : client.acquire(attributes(step.get("acquire")), cost, seconds);
        }
        if (step.containsKey("reserve")) {
            return step.get("reserve") instanceof List<?> words
                    ? client.reserve((String) words.get(0), (String) words.get(1), cost, seconds)
                    : client.reserve(attributes(step.get("reserve")), cost, seconds);
        }
        if (step.get("pause") instanceof List<?> pause) {
            return client.pause((String) pause.get(0), (String) pause.get(1)).map(Scenario::seconds).orElse(null);
        }
        if (step.containsKey("release")) {
            return client.release(lease(step, "release")).orElse(null);
        }
        if (step.containsKey("renew")) {
            return client.renew(lease(step, "renew"), seconds).orElse(null);
        }
        if (step.containsKey("commit")) {
            return (step.containsKey("cost") ? client.commit(lease(step, "commit"), cost) : client.commit(lease(step, "commit"))).orElse(null);
        }
        if (step.containsKey("refund")) {
            return client.refund(lease(step, "refund")).orElse(null);
        }
        if (step.containsKey("report")) {
            return client.report(remembered.get(step.get("report")).charge(), (Integer) step.get("status")).orElse(null);
        }
        throw new IllegalStateException("no such verb: " + step);
    }

    private String lease(Map<String, Object> step, String verb) {
        return remembered.get(step.get(verb)).lease();
    }

    private static Map<String, Object> attributes(Object given) {
        Map<String, Object> attributes = new HashMap<>(map(given));
        attributes.replaceAll((name, value) -> value instanceof Map<?, ?> v ? ((String) v.get("repeat")).repeat((Integer) v.get("count")) : value);
        return attributes;
    }

    // --- what is expected ---------------------------------------------------------------------------

    private static List<String> faultsOf(Object expected, Object found) {
        List<String> faults = new ArrayList<>();
        if (found instanceof HttpResponse<?> response) {
            return faultsOfResponse(map(expected), response);
        }
        if (!(found instanceof Decision decision)) {
            addFault(faults, "", expected, found);
            return faults;
        }
        Scenario.<Object>map(expected).forEach((name, value) -> {
            if (name.equals("headers")) {
                faults.addAll(faultsOfHeaders(map(value), wanted -> lookUp(decision.headers(), wanted)));
            } else if (!name.equals("why")) {
                addFault(faults, name, value, MEMBERS.get(name).apply(decision));
            } else if (!decision.why().contains((String) value)) {
                faults.add("why is " + decision.why() + ", not " + value);
            }
        });
        if (!faults.isEmpty()) {
            faults.add("why: " + decision.why());
        }
        return faults;
    }

    private static String lookUp(Map<String, String> headers, String name) {
        return headers.entrySet().stream().filter(e -> e.getKey().equalsIgnoreCase(name)).map(Map.Entry::getValue).findAny().orElse(null);
    }

    private static List<String> faultsOfHeaders(Map<String, Object> expected, Function<String, String> found) {
        List<String> faults = new ArrayList<>();
        expected.forEach((name, value) -> addFault(faults, name, value, found.apply(name)));
        return faults;
    }

    private static List<String> faultsOfResponse(Map<String, Object> expected, HttpResponse<?> response) {
        String body = (String) response.body();
        List<String> faults = faultsOfHeaders(map(expected.get("headers")), name -> response.headers().firstValue(name).orElse(null));
        if (expected.containsKey("json")) {
            Map<String, Object> members = map(parse(body));
            Scenario.<Object>map(expected.get("json")).forEach((name, value) -> addFault(faults, name, value, members.get(name)));
        }
        if (expected.containsKey("status")) {
            addFault(faults, "status", expected.get("status"), response.statusCode());
        }
        if (expected.containsKey("body")) {
            addFault(faults, "body", expected.get("body"), body);
        }
        return faults;
    }

    private static void addFault(List<String> faults, String name, Object expected, Object found) {
        if (!matches(expected, found)) {
            faults.add(name + " is " + found + ", not " + expected);
        }
    }

    private static boolean matches(Object expected, Object found) {
        if (expected instanceof Map<?, ?> range) {
            if (range.containsKey("has")) {
                return String.valueOf(found).contains((String) range.get("has"));
            }
            return found != null && atLeast(Double.parseDouble(found.toString()), range.get("at_least"))
                    && atLeast(-Double.parseDouble(found.toString()), range.get("at_most") instanceof Number most ? -most.doubleValue() : null);
        }
        if (expected instanceof Number number && found instanceof Number other) {
            return number.doubleValue() == other.doubleValue();
        }
        return Objects.equals(expected, found);
    }

    private static boolean atLeast(double value, Object least) {
        return !(least instanceof Number number) || value >= number.doubleValue();
    }

    private static boolean isSubsequence(List<?> wanted, List<String> found) {
        Iterator<String> rest = found.iterator();
        for (Object name : wanted) {
            boolean seen = false;
            while (!seen && rest.hasNext()) {
                seen = rest.next().equals(name);
            }
            if (!seen) {
                return false;
            }
        }
        return true;
    }

    private static void check(Object part, String found) {
        if (!found.contains((String) part)) {
            throw new AssertionError(found + " does not have " + part);
        }
    }

    /** The message of a mistake of the program. */
    private static String messageOf(Supplier<Object> mistake) {
        Object made;
        try {
            made = mistake.get();
        } catch (IllegalArgumentException error) {
            return error.getMessage();
        }
        throw new AssertionError("no error but " + made);
    }
}
