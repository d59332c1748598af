import java.io.*; import java.nio.file.*; import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class Main { public static void main(String[] a) throws Exception {
    Files.writeString(Path.of("out"), "written"); System.out.println(Files.readString(Path.of("out")));
    var pool = Executors.newFixedThreadPool(4); var sum = 0L;
    for (var f : pool.invokeAll(IntStream.range(0, 50).<Callable<Integer>>mapToObj(i -> () -> i * i).toList())) sum += f.get();
    pool.shutdown(); System.out.println(sum + " " + (Runtime.getRuntime().availableProcessors() > 0));
    var p = new ProcessBuilder("sh", "-c", "cat; exit 3").redirectErrorStream(true).start();
    p.getOutputStream().write("piped".getBytes()); p.getOutputStream().close();
    System.out.println(new String(p.getInputStream().readAllBytes()) + " " + p.waitFor());
    try (var s = Files.walk(Path.of("."))) { System.out.println(s.filter(Files::isRegularFile).count()); }
    try { Files.readString(Path.of("none")); } catch (NoSuchFileException e) { System.out.println("missing " + e.getFile()); }
    System.gc(); System.out.println(String.join(",", a)); System.exit(4); } }
