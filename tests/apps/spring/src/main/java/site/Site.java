// SPDX-License-Identifier: Apache-2.0
package site;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;
import jakarta.servlet.http.HttpServletRequest;

/** A site with Spring: two handlers that note what they were called with. Usage: Site PORT */
@SpringBootApplication
@RestController
public class Site {
    private final List<String> calls = new CopyOnWriteArrayList<>();

    @PostMapping("/login")
    public String login(HttpServletRequest request) {
        calls.add("login " + request.getRequestURI());
        return "login";
    }

    @PostMapping("/items/{item}/buy")
    public String buy(@PathVariable("item") String item) {
        calls.add("buy " + item);
        return "buy";
    }

    @GetMapping("/calls")
    public List<String> calls() {
        return calls;
    }

    public static void main(String[] args) {
        SpringApplication.run(Site.class, "--server.address=127.0.0.1", "--server.port=" + args[0],
                              "--spring.main.banner-mode=off", "--logging.level.root=warn");
    }
}
