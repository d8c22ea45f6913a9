// SPDX-License-Identifier: Apache-2.0
// The application of clients/scenarios.yaml, once for each framework, in a real server on a free port: the servlet filter in
// Tomcat, and Spring Boot. /stream, /async and the like are for MiddlewareTest.

package io.github.ration.tests;

import io.github.ration.client.Decision;
import io.github.ration.client.RationClient;
import io.github.ration.servlet.RationFilter;
import io.github.ration.spring.RationClientCustomizer;
import io.github.ration.spring.RationRequests;
import jakarta.servlet.AsyncContext;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.LifecycleException;
import org.apache.catalina.connector.Connector;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.web.embedded.tomcat.TomcatServletWebServerFactory;
import org.springframework.boot.web.server.WebServerFactoryCustomizer;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;

final class Sites {
    static final Map<String, Maker> ALL = Map.of("servlet", Sites::servlet, "spring", Sites::spring);
    /** Streams and asynchronous answers wait for one of these each. */
    static final Semaphore GO = new Semaphore(0);

    private static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private static final Logger QUIET = Logger.getLogger("org.apache"); // held here, so that its level stays

    /** {@code skip}: a path, or null. */
    interface Maker {
        Site make(Consumer<RationClient.Builder> settings, String skip, Duration wait);
    }

    interface Site extends AutoCloseable {
        int port();

        @Override
        void close();

        default HttpResponse<String> ask(String method, String target, Map<String, String> headers) {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port() + target))
                    .timeout(Duration.ofSeconds(60)).method(method, HttpRequest.BodyPublishers.noBody());
            headers.forEach(request::header);
            try {
                return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
        }
    }

    private Sites() {}

    private static Map<String, ?> user(HttpServletRequest request) {
        Map<String, Object> attributes = new HashMap<>();
        attributes.put("user", request.getHeader("X-User"));
        return attributes;
    }

    private static void allowEncodedSlashes(Connector connector) {
        connector.setEncodedSolidusHandling("passthrough");
    }

    private static void awaitGo() {
        try {
            if (!GO.tryAcquire(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("nobody lets it go on");
            }
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static String by(HttpServletRequest request) {
        return request.getAttribute(RationFilter.DECISION) instanceof Decision decision ? decision.by() + " " + decision.why() : "";
    }

    /** Fails for /raise. */
    private static int status(String path) {
        if (path.equals("/raise")) {
            throw new IllegalStateException("as the scenario wants it");
        }
        return path.startsWith("/status/") ? Integer.parseInt(path.substring(8)) : 200;
    }

    // --- a servlet in Tomcat ----------------------------------------------------------------------

    private static final class Servlet extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
            String path = request.getRequestURI();
            response.setHeader("X-Decided-By", by(request));
            switch (path) {
                case "/async", "/async-error", "/async-dispatch" -> answerLater(request, path);
                case "/async-throw" -> {
                    request.startAsync();
                    status("/raise");
                }
                case "/send-error" -> response.sendError(500, "as the test wants it");
                case "/stream" -> {
                    response.getWriter().write("a");
                    response.flushBuffer();
                    awaitGo();
                    response.getWriter().write("b");
                }
                default -> {
                    response.setStatus(status(path));
                    response.getWriter().write("ok");
                }
            }
        }

        private static void answerLater(HttpServletRequest request, String path) {
            if (request.getDispatcherType() == DispatcherType.ASYNC) {
                status("/raise");
            }
            AsyncContext context = request.startAsync();
            context.setTimeout(0);
            context.start(() -> {
                awaitGo();
                if (path.equals("/async-dispatch")) {
                    context.dispatch();
                    return;
                }
                ((HttpServletResponse) context.getResponse()).setStatus(path.equals("/async-error") ? 500 : 200);
                context.complete();
            });
        }
    }

    private static Site servlet(Consumer<RationClient.Builder> settings, String skip, Duration wait) {
        QUIET.setLevel(Level.OFF);
        RationClient.Builder builder = RationClient.builder();
        settings.accept(builder);
        RationClient limiter = builder.build();
        Tomcat tomcat = new Tomcat();
        tomcat.setSilent(true);
        try {
            Path folder = Files.createTempDirectory("ration-site");
            tomcat.setBaseDir(folder.toString());
            tomcat.setPort(0);
            allowEncodedSlashes(tomcat.getConnector());
            Context context = tomcat.addContext("", null);
            Tomcat.addServlet(context, "site", new Servlet()).setAsyncSupported(true);
            context.addServletMappingDecoded("/*", "site");
            FilterDef definition = new FilterDef();
            definition.setFilterName("ration");
            definition.setFilter(new RationFilter(limiter).attributes(Sites::user).skip(r -> r.getRequestURI().equals(skip)).waitInLine(wait));
            definition.setAsyncSupported("true");
            context.addFilterDef(definition);
            FilterMap map = new FilterMap();
            map.setFilterName("ration");
            map.addURLPattern("/*");
            EnumSet.allOf(DispatcherType.class).forEach(type -> map.setDispatcher(type.name()));
            context.addFilterMap(map);
            tomcat.start();
            int port = tomcat.getConnector().getLocalPort();
            return site(port, () -> {
                tomcat.stop();
                tomcat.destroy();
                limiter.close();
                delete(folder);
                return null;
            });
        } catch (IOException | LifecycleException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void delete(Path folder) throws IOException {
        try (var files = Files.walk(folder)) {
            for (Path file : files.sorted((a, b) -> b.compareTo(a)).toList()) {
                Files.delete(file);
            }
        }
    }

    private static Site site(int port, Callable<Void> close) {
        return new Site() {
            @Override
            public int port() {
                return port;
            }

            @Override
            public void close() {
                try {
                    close.call();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
        };
    }

    // --- Spring Boot --------------------------------------------------------------------------------

    @SpringBootConfiguration
    @EnableAutoConfiguration
    @RestController
    static class App {
        @Bean
        WebServerFactoryCustomizer<TomcatServletWebServerFactory> slashes() {
            return factory -> factory.addConnectorCustomizers(Sites::allowEncodedSlashes);
        }

        @RequestMapping("/stream")
        StreamingResponseBody stream() {
            return out -> {
                out.write('a');
                out.flush();
                awaitGo();
                out.write('b');
            };
        }

        @RequestMapping("/async")
        Callable<String> async() {
            return () -> {
                awaitGo();
                return "ok";
            };
        }

        @RequestMapping({"/async-error", "/async-dispatch"})
        Callable<String> asyncError() {
            return () -> {
                awaitGo();
                throw new IllegalStateException("as the test wants it");
            };
        }

        @RequestMapping("/send-error")
        void sendError(HttpServletResponse response) throws IOException {
            response.sendError(500, "as the test wants it");
        }

        @RequestMapping("/**")
        ResponseEntity<String> any(HttpServletRequest request) {
            return ResponseEntity.status(status(request.getRequestURI())).header("X-Decided-By", by(request)).body("ok");
        }
    }

    private static Site spring(Consumer<RationClient.Builder> settings, String skip, Duration wait) {
        RationRequests requests = new RationRequests() {
            @Override
            public Map<String, ?> attributes(HttpServletRequest request) {
                return user(request);
            }

            @Override
            public boolean skip(HttpServletRequest request) {
                return request.getRequestURI().equals(skip);
            }
        };
        var context = (ServletWebServerApplicationContext) new SpringApplicationBuilder(App.class)
                .initializers(c -> ((GenericApplicationContext) c).registerBean(RationRequests.class, () -> requests))
                .initializers(c -> ((GenericApplicationContext) c).registerBean(RationClientCustomizer.class, () -> settings::accept))
                .run("--server.port=0", "--server.address=127.0.0.1", "--spring.main.banner-mode=off", "--logging.level.root=off",
                        "--spring.main.lazy-initialization=true", "--spring.main.register-shutdown-hook=false",
                        "--ration.wait=" + (wait == null ? "" : wait.toMillis() + "ms"));
        return site(context.getWebServer().getPort(), () -> {
            context.close();
            return null;
        });
    }
}
