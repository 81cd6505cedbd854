// Arithmetic over vectors: cosines, principal components, k-means. N is the number of vectors, K the number of clusters.

const ITERATIONS = 200;
const ROUNDS = 50;
const STARTS = 4;
const CLOSE = 1e-9;

export function dot(a, b) {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += a[index] * b[index];
  return sum;
}

/** The cosine of two vectors; 0 if one of them is zero. */
export function cosine(a, b) {
  const lengths = Math.sqrt(dot(a, a) * dot(b, b));
  return lengths ? dot(a, b) / lengths : 0;
}

export function unit(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return Float64Array.from(vector, (value) => value / length);
}

function mean(vectors) {
  const sum = new Float64Array(vectors[0].length);
  for (const vector of vectors) for (let index = 0; index < sum.length; index += 1) sum[index] += vector[index] / vectors.length;
  return sum;
}

/**
 * The first two principal components, by power iteration: a function that returns the coordinates [x, y] of a vector.
 * Along each component, the coordinate with the largest magnitude is positive.
 */
export function principal(vectors) {
  const centre = mean(vectors);
  const rest = vectors.map((vector) => Float64Array.from(vector, (value, index) => value - centre[index]));
  const axes = [0, 1].map(() => {
    const axis = strongest(rest);
    const along = rest.map((vector) => dot(vector, axis));
    const sign = Math.sign(along.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0)) || 1;
    along.forEach((place, row) => axis.forEach((value, index) => (rest[row][index] -= place * value)));
    return axis.map((value) => sign * value);
  });
  return (vector) => axes.map((axis) => dot(vector, axis) - dot(centre, axis));
}

/** The direction of the largest variance of centred vectors; zero if all of them are the same. */
function strongest(rows) {
  const random = generator(1);
  let direction = unit(Float64Array.from(rows[0], () => random() - 0.5));
  for (let round = 0; round < ITERATIONS; round += 1) {
    const next = new Float64Array(direction.length);
    for (const row of rows) {
      const along = dot(row, direction);
      for (let index = 0; index < next.length; index += 1) next[index] += along * row[index];
    }
    if (dot(next, next) < CLOSE ** 2) return new Float64Array(direction.length);
    const turned = unit(next);
    const still = 1 - Math.abs(dot(turned, direction)) < CLOSE ** 1.5;
    direction = turned;
    if (still) break;
  }
  return direction;
}

/**
 * Clusters by spherical k-means: {labels (N), centres (K)}, numbered from the largest cluster down.
 * Several starts by k-means++, the tightest result wins; the same input gives the same clusters.
 */
export function kmeans(vectors, count) {
  const units = vectors.map(unit);
  let best = null;
  for (let start = 1; start <= STARTS; start += 1) {
    const found = settled(units, spread(units, count, generator(start)));
    if (!best || found.closeness > best.closeness + CLOSE) best = found;
  }
  return bySize(best);
}

/** The clusters by `kmeans` with the best silhouette; their number is 2 to `most`, or 1. */
export function clustersOf(vectors, most = 8) {
  const units = vectors.map(unit);
  const distances = units.map((a) => Float64Array.from(units, (b) => 1 - dot(a, b)));
  let best = { labels: vectors.map(() => 0), centres: [unit(mean(units))], silhouette: 0 };
  for (let count = 2; count <= Math.min(most, vectors.length - 1); count += 1) {
    const found = kmeans(units, count);
    const silhouette = silhouetteOf(distances, found);
    if (silhouette > best.silhouette + CLOSE) best = { ...found, silhouette };
  }
  return best;
}

/** The mean of (distance to the next cluster - distance to the own) / the larger one, over all vectors (Rousseeuw 1987). */
function silhouetteOf(distances, { labels, centres }) {
  const size = centres.map((_, cluster) => labels.filter((label) => label === cluster).length);
  const values = distances.map((others, row) => {
    if (size[labels[row]] < 2) return 0;
    const sums = centres.map(() => 0);
    others.forEach((distance, index) => (sums[labels[index]] += distance));
    const own = sums[labels[row]] / (size[labels[row]] - 1);
    const next = Math.min(...sums.map((sum, cluster) => (cluster === labels[row] ? Infinity : sum / size[cluster])));
    return (next - own) / (Math.max(next, own) || 1);
  });
  return values.reduce((a, b) => a + b, 0) / values.length;
}

function spread(units, count, random) {
  const centres = [units[Math.floor(random() * units.length)]];
  while (centres.length < Math.min(count, units.length)) {
    const far = units.map((vector) => Math.max(0, 1 - Math.max(...centres.map((centre) => dot(vector, centre)))));
    let left = random() * far.reduce((a, b) => a + b, 0);
    const row = far.findIndex((distance) => (left -= distance) < 0);
    centres.push(units[row < 0 ? far.indexOf(Math.max(...far)) : row]);
  }
  return centres;
}

function settled(units, centres) {
  let labels = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const now = units.map((vector) => nearest(vector, centres));
    if (now.every((label, row) => label === labels[row])) break;
    labels = now;
    centres = centres.map((centre, cluster) => {
      const members = units.filter((_, row) => labels[row] === cluster);
      return members.length ? unit(mean(members)) : centre;
    });
  }
  return { labels, centres, closeness: units.reduce((sum, vector, row) => sum + dot(vector, centres[labels[row]]), 0) };
}

function nearest(vector, centres) {
  let best = 0;
  centres.forEach((centre, index) => {
    if (dot(vector, centre) > dot(vector, centres[best]) + CLOSE) best = index;
  });
  return best;
}

function bySize({ labels, centres }) {
  const sizes = centres.map((_, cluster) => labels.filter((label) => label === cluster).length);
  const order = sizes.map((_, cluster) => cluster).filter((cluster) => sizes[cluster]).sort((a, b) => sizes[b] - sizes[a] || a - b);
  return { labels: labels.map((label) => order.indexOf(label)), centres: order.map((cluster) => centres[cluster]) };
}

/** Numbers from 0 to 1 that are the same at every call (mulberry32). */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
