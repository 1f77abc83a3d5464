// Draws the flow: boxes are links in columns, lines are curves behind them. Python says what and in which
// order (props `columns`, `edges`); the places follow from the width that there is.
const NODE = { min: 112, most: 240, height: 80, gap: 24 };
const GAP_LEAST = 92;
const TOP = 40;

export default {
  props: { columns: Array, edges: Array, stale: Boolean },
  template: `
    <div class="hw-flow" :class="{'hw-flow-stale': stale, 'hw-flow-narrow': nodeWidth < 150}" ref="box" role="group" aria-label="The flow">
      <div class="hw-flow-inner" :style="inner">
        <div v-for="(column, i) in columns" :key="'h' + i" class="hw-flow-head"
             :style="{left: x(i) + 'px', width: nodeWidth + 'px'}" aria-hidden="true">{{ column.head }}</div>
        <svg :width="width" :height="height" class="hw-flow-lines" aria-hidden="true">
          <g v-for="line in lines" :key="line.key">
            <path :d="line.path" :class="['hw-line', 'hw-' + line.tone]" :style="{strokeWidth: line.width}"/>
            <path v-if="line.rate > 0" :d="line.path" :class="['hw-pulse', 'hw-' + line.tone]"
                  :style="{animationDuration: line.pace}"/>
          </g>
        </svg>
        <div v-for="line in labelled" :key="'l' + line.key" :class="['hw-edge', 'hw-' + line.tone]"
             :style="{left: line.labelX + 'px', top: line.labelY + 'px'}" :title="line.title">
          <span v-if="line.label">{{ line.label }}</span><span v-if="line.lag" class="hw-lag">{{ line.lag }}</span>
        </div>
        <ul v-for="(column, i) in columns" :key="'c' + i" class="hw-flow-column" :aria-label="column.head">
          <li v-for="(node, row) in column.nodes" :key="node.id">
            <a :href="node.href" :class="['hw-node', 'hw-kind-' + node.kind, 'hw-' + node.tone]"
               :style="{left: x(i) + 'px', top: y(i, row) + 'px', width: nodeWidth + 'px'}"
               :title="node.trouble || node.name + ' · ' + node.sub" :data-node="node.id">
              <span class="hw-node-name"><i class="material-icons" aria-hidden="true">{{ node.icon }}</i>
                <b v-html="broken(node.name)"></b></span>
              <span class="hw-node-sub">{{ node.trouble && node.tone === 'bad' && !node.badge ? node.trouble : node.sub }}</span>
              <span class="hw-node-figure">{{ node.figure }}</span>
              <em v-if="node.badge" class="hw-node-badge">{{ node.badge }}</em>
              <span v-if="node.tone === 'bad'" class="hw-hidden">Needs attention: {{ node.trouble }}</span>
            </a>
          </li>
        </ul>
      </div>
    </div>`,
  data: () => ({ room: 1100 }),
  mounted() {
    this.watcher = new ResizeObserver(() => { this.room = this.$refs.box.clientWidth; });
    this.watcher.observe(this.$refs.box);
    this.room = this.$refs.box.clientWidth;
  },
  unmounted() { this.watcher.disconnect(); },
  computed: {
    count() { return Math.max(this.columns.length, 1); },
    nodeWidth() {
      const fair = (this.room - (this.count - 1) * GAP_LEAST) / this.count;
      return Math.max(NODE.min, Math.min(NODE.most, fair));
    },
    width() { return Math.max(this.room, this.count * NODE.min + (this.count - 1) * GAP_LEAST); },
    gap() { return this.count > 1 ? (this.width - this.count * this.nodeWidth) / (this.count - 1) : 0; },
    // A little too wide is drawn smaller; much too wide is scrolled.
    scale() { return Math.max(0.8, Math.min(1, this.room / this.width)); },
    inner() {
      const spare = 1 - this.scale;
      return { width: this.width + "px", height: this.height + "px", transform: `scale(${this.scale})`,
        marginBottom: -spare * this.height + "px", marginRight: -spare * this.width + "px" };
    },
    rows() { return Math.max(1, ...this.columns.map((column) => column.nodes.length)); },
    height() { return TOP + this.rows * (NODE.height + NODE.gap); },
    places() {
      const found = {};
      this.columns.forEach((column, i) => column.nodes.forEach((node, row) => {
        found[node.id] = { x: this.x(i), y: this.y(i, row) + NODE.height / 2, column: i };
      }));
      return found;
    },
    lines() {
      const drawn = this.edges.filter((e) => this.places[e.source] && this.places[e.target]);
      const leaving = this.ports(drawn, "source", "target");
      const arriving = this.ports(drawn, "target", "source");
      return drawn.map((edge, n) => {
        const from = this.places[edge.source], to = this.places[edge.target];
        const x1 = from.x + this.nodeWidth, y1 = from.y + leaving[n];
        const x2 = to.x, y2 = to.y + arriving[n];
        const bend = Math.max(30, (x2 - x1) / 2);
        return { ...edge, key: edge.source + ">" + edge.target,
          path: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`,
          width: 1.5 + Math.min(3, Math.log10(1 + edge.rate)),
          pace: Math.max(0.6, 4 - Math.log10(1 + edge.rate)) + "s",
          // Of a line over several columns, the label stands in the last gap, where it is free.
          labelX: to.x - this.gap / 2,
          labelY: to.column - from.column > 1 ? y2 : y1 + (y2 - y1) * 0.84,
          title: `${edge.label || "no rate yet"}${edge.lag ? ", " + edge.lag : ""}` };
      });
    },
    labelled() {
      const shown = this.lines.filter((line) => line.label || line.lag);
      const gaps = {};
      for (const line of shown) (gaps[line.labelX] ||= []).push(line);
      for (const gap of Object.values(gaps)) {
        gap.sort((a, b) => a.labelY - b.labelY);
        const tall = (line) => (line.lag && line.label ? 18 : 11);
        for (let round = 0; round < 40; round++) {
          for (let i = 1; i < gap.length; i++) {
            const need = tall(gap[i - 1]) + tall(gap[i]) + 2 - (gap[i].labelY - gap[i - 1].labelY);
            if (need > 0) { gap[i - 1].labelY -= need / 2; gap[i].labelY += need / 2; }
          }
        }
      }
      return shown;
    },
  },
  methods: {
    // A long name may be broken after a dot, a dash or an underscore.
    broken(name) {
      const safe = name.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
      return safe.replace(/([._-])/g, "$1<wbr>");
    },
    x(column) { return column * (this.nodeWidth + this.gap); },
    y(column, row) {
      const own = this.columns[column].nodes.length * (NODE.height + NODE.gap);
      const whole = this.rows * (NODE.height + NODE.gap);
      return TOP + (whole - own) / 2 + row * (NODE.height + NODE.gap) + NODE.gap / 2;
    },
    // Lines at one side of a box stand apart, in the order of their other ends.
    ports(edges, own, other) {
      const at = {};
      edges.forEach((edge, n) => (at[edge[own]] ||= []).push(n));
      const offset = [];
      for (const list of Object.values(at)) {
        list.sort((a, b) => this.places[edges[a][other]].y - this.places[edges[b][other]].y);
        const step = Math.min(12, 44 / list.length);
        list.forEach((n, i) => { offset[n] = (i - (list.length - 1) / 2) * step; });
      }
      return offset;
    },
  },
};
