import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Esper, asked one statement at a time: a line with the statement, a line with the number of rows, then the
 * rows `key,time,x,id` in order of time. Answers one line for each match, its measures joined by commas, then
 * a line "done", the nanoseconds that sending took, and the bytes of the heap afterwards. Many such
 * questions may follow each other. With the argument "count", matches are only counted.
 */
public class Esper {
    public static class Row {
        private final String key;
        private final long time;
        private final int x;
        private final int id;

        Row(String key, long time, int x, int id) {
            this.key = key;
            this.time = time;
            this.x = x;
            this.id = id;
        }

        public String getKey() { return key; }
        public long getTime() { return time; }
        public int getX() { return x; }
        public int getId() { return id; }
    }

    public static void main(String[] words) throws Exception {
        boolean counting = words.length > 0 && words[0].equals("count");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        int question = 0;
        for (String statement = in.readLine(); statement != null; statement = in.readLine()) {
            int count = Integer.parseInt(in.readLine().trim());
            List<Row> rows = new ArrayList<>(count);
            for (int n = 0; n < count; n++) {
                String[] parts = in.readLine().split(",");
                rows.add(new Row(parts[0], Long.parseLong(parts[1]), Integer.parseInt(parts[2]),
                    Integer.parseInt(parts[3])));
            }
            ask("question-" + question++, statement, rows, counting, out);
            out.flush();
        }
    }

    private static void ask(String name, String statement, List<Row> rows, boolean counting, PrintStream out)
        throws Exception {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Row", Row.class);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPRuntime runtime = EPRuntimeProvider.getRuntime(name, configuration);
        runtime.getEventService().clockExternal();
        runtime.getEventService().advanceTime(0);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(
            "@name('matches') " + statement, new CompilerArguments(configuration));
        EPDeployment deployed = runtime.getDeploymentService().deploy(compiled);
        long[] found = {0};
        deployed.getStatements()[0].addListener((events, old, from, where) -> {
            for (EventBean event : events) {
                found[0]++;
                if (!counting) {
                    out.println(shown(event));
                }
            }
        });
        long begin = System.nanoTime();
        long now = 0;
        for (Row row : rows) {
            if (row.getTime() > now) {
                now = row.getTime();
                runtime.getEventService().advanceTime(now);
            }
            runtime.getEventService().sendEventBean(row, "Row");
        }
        long took = System.nanoTime() - begin;
        long heap = 0;
        if (counting) {
            rows.clear();
            System.gc();
            heap = Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
        }
        out.println("done," + found[0] + "," + took + "," + heap);
        runtime.destroy();
    }

    private static String shown(EventBean event) {
        StringBuilder line = new StringBuilder();
        for (String property : event.getEventType().getPropertyNames()) {
            Object value = event.get(property);
            line.append(line.length() == 0 ? "" : ",").append(property).append('=').append(value);
        }
        return line.toString();
    }
}
