"""Expressions of site rules: text -> a checked tree. Nothing of Python is ever run.

Python's own parser reads the text (``ast``), and of what it finds only a short list is taken:
numbers, the names of :mod:`.names`, ``+ - * /``, one comparison, ``and or not``, and the functions
of :data:`.tree.FUNCTIONS`. Everything is checked here, before there is any data: names, units,
which table a series is of, what a function takes.
"""

from __future__ import annotations

import ast
from typing import Literal

from slurm_io.analysis.site_rules import names
from slurm_io.analysis.site_rules.tree import (
    AGGREGATES,
    CONVERSIONS,
    FUNCTIONS,
    MOST_CHARS,
    MOST_DEPTH,
    MOST_NODES,
    MOST_NUMBER,
    SCALARS,
    SHARE,
    ExpressionError,
    Node,
)
from slurm_io.analysis.site_rules.units import ANY, NONE, converted

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def parse(text: str, wanted: Literal["number", "truth"] = "number") -> Node:
    """The tree of `text`.

    Raises:
        ExpressionError: what is wrong, and where known what to write instead.
    """
    if len(text) > MOST_CHARS:
        raise ExpressionError(f"longer than {MOST_CHARS} characters")
    if not text.isprintable():
        raise ExpressionError("it holds characters that cannot be printed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        where = f" at character {error.offset}" if error.offset else ""
        raise ExpressionError(f"not an expression{where}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ExpressionError("not an expression: it is nested too deep") from None
    _check_size(tree)
    node = _Parser(text.strip()).node(tree)
    if node.table is not None:
        raise ExpressionError(
            f"{node.text} has a value for each row: say which, e.g. mean({node.text})"
        )
    if node.is_truth != (wanted == "truth"):
        is_what = "true or false, not a number" if node.is_truth else "a number, not true or false"
        hint = ": put the limit into threshold" if node.is_truth else ": compare it with something"
        raise ExpressionError(f"{node.text} is {is_what}{hint}")
    return node


def _check_size(tree: ast.AST) -> None:
    count, level = 0, [tree]
    for _level in range(MOST_DEPTH + 1):
        count += len(level)
        level = [
            child
            for node in level
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.expr_context, ast.operator, ast.cmpop, ast.boolop))
        ]
        if count > MOST_NODES:
            raise ExpressionError(f"more than {MOST_NODES} parts")
        if not level:
            return
    raise ExpressionError(f"nested deeper than {MOST_DEPTH} levels")


class _Parser:
    """Turns ast's nodes into ours."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._fields, self._series = names.fields(), names.series()

    def node(self, tree: ast.AST) -> Node:
        """The part of the expression that `tree` is."""
        text = self._text(tree)
        if isinstance(tree, ast.Constant):
            return _number(tree.value, text)
        if isinstance(tree, (ast.Name, ast.Attribute)):
            return self._name(tree, text)
        if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
            return self._binary(tree, text)
        if isinstance(tree, ast.UnaryOp):
            return self._unary(tree, text)
        if isinstance(tree, ast.Compare):
            return self._compare(tree, text)
        if isinstance(tree, ast.BoolOp):
            return self._together(tree, text)
        if isinstance(tree, ast.Call):
            return self._call(tree, text)
        raise ExpressionError(
            f"{text} cannot be written here: numbers, names, + - * /, one comparison, and, or, "
            f"not, and the functions {', '.join(FUNCTIONS)} can"
        )

    def _text(self, tree: ast.AST) -> str:
        return (ast.get_source_segment(self._source, tree) or "it")[:80]

    def _name(self, tree: ast.AST, text: str) -> Node:
        name = _dotted(tree)
        if name is None:
            raise ExpressionError(f"{text} is no name: write table.column or a field of the report")
        if name in self._fields:
            return Node("field", name, self._fields[name].unit)
        if name in self._series:
            one = self._series[name]
            is_truth = one.column.type == "bool"
            return Node("series", name, one.unit, table=one.table, is_truth=is_truth)
        known = [*self._fields, *self._series]
        raise ExpressionError(f"there is no {name}{names.nearest(name, known)}")

    def _binary(self, tree: ast.BinOp, text: str) -> Node:
        left, right = self._numbers(tree.left, tree.right)
        sign, table = _BINARY[type(tree.op)], _one_table(left, right)
        if sign in "+-":
            _same_unit(left, right, "added" if sign == "+" else "subtracted")
            unit = left.unit.or_any(right.unit)
        elif sign == "*":
            unit = left.unit.times(right.unit)
        else:
            if right.kind == "number" and right.value == 0:
                raise ExpressionError(f"{text} divides by zero")
            unit = left.unit.over(right.unit)
        return Node("binary", text, unit, (left, right), table=table, op=sign)

    def _unary(self, tree: ast.UnaryOp, text: str) -> Node:
        inner = self.node(tree.operand)
        if isinstance(tree.op, ast.USub):
            _be_number(inner)
            return Node("negative", text, inner.unit, (inner,), table=inner.table)
        if isinstance(tree.op, ast.Not):
            _be_truth(inner)
            return Node("not", text, NONE, (inner,), table=inner.table, is_truth=True)
        raise ExpressionError(f"{text}: only - and not can stand before something")

    def _compare(self, tree: ast.Compare, text: str) -> Node:
        if len(tree.ops) != 1:
            raise ExpressionError(f"{text}: one comparison at a time, joined by and")
        if type(tree.ops[0]) not in _COMPARE:
            raise ExpressionError(f"{text}: compare with < <= > >= == or !=")
        left, right = self._numbers(tree.left, tree.comparators[0])
        _same_unit(left, right, "compared")
        table = _one_table(left, right)
        sign = _COMPARE[type(tree.ops[0])]
        return Node("compare", text, NONE, (left, right), table=table, is_truth=True, op=sign)

    def _together(self, tree: ast.BoolOp, text: str) -> Node:
        parts = tuple(self.node(one) for one in tree.values)
        for one in parts:
            _be_truth(one)
        kind = "and" if isinstance(tree.op, ast.And) else "or"
        return Node(kind, text, NONE, parts, table=_one_table(*parts), is_truth=True)

    def _numbers(self, *trees: ast.AST) -> tuple[Node, ...]:
        found = tuple(self.node(one) for one in trees)
        for one in found:
            _be_number(one)
        return found

    def _call(self, tree: ast.Call, text: str) -> Node:
        name = tree.func.id if isinstance(tree.func, ast.Name) else None
        if name not in FUNCTIONS:
            called = _dotted(tree.func) or "that"
            raise ExpressionError(
                f"there is no function {called}{names.nearest(called, [*FUNCTIONS])}"
            )
        if any(isinstance(one, ast.Starred) for one in tree.args):
            raise ExpressionError(f"{text}: * cannot be written here")
        if name in AGGREGATES or name == SHARE:
            return self._over_rows(name, tree, text)
        if tree.keywords:
            raise ExpressionError(f"{text}: only functions over rows take column=value")
        return self._of_values(name, tree, text)

    def _over_rows(self, name: str, tree: ast.Call, text: str) -> Node:
        if len(tree.args) != 1:
            raise ExpressionError(f"{text}: {name} takes one series, then column=value")
        inner = self.node(tree.args[0])
        if inner.table is None:
            raise ExpressionError(f"{text}: {name} takes a series (table.column), not one value")
        where = tuple(_filter(one, inner.table, text) for one in tree.keywords)
        if name == SHARE:
            if not inner.is_truth:
                raise ExpressionError(f"{text}: compare the series with something, e.g. > 5")
            return Node("share", text, NONE, (inner,), where=where)
        if inner.is_truth:
            raise ExpressionError(f"{text}: {name} takes numbers; for true or false use {SHARE}")
        unit = NONE if name == "count" else inner.unit
        return Node("aggregate", text, unit, (inner,), where=where, op=name)

    def _of_values(self, name: str, tree: ast.Call, text: str) -> Node:
        wanted = 2 if name in SCALARS else 1
        if len(tree.args) != wanted:
            raise ExpressionError(f"{text}: {name} takes {wanted} value{'s' * (wanted > 1)}")
        parts = self._numbers(*tree.args)
        table = _one_table(*parts)
        if name in CONVERSIONS:
            changed = converted(parts[0].unit)
            if changed is None:
                raise ExpressionError(f"{text}: {parts[0].unit} cannot be converted")
            return Node("convert", text, changed[0], parts, changed[1], table)
        if table is not None:
            raise ExpressionError(f"{text}: {name} takes single values, not series")
        _same_unit(parts[0], parts[1], "compared")
        return Node("choice", text, parts[0].unit.or_any(parts[1].unit), parts, op=name)


def _number(value: object, text: str) -> Node:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ExpressionError(f"{text} cannot be written here: texts only as column='value'")
    if not abs(value) <= MOST_NUMBER:  # nor is "nan" one
        shown = text if len(text) <= 20 else f"{text[:20]}..."
        raise ExpressionError(f"{shown} is no number between -1e18 and 1e18")
    return Node("number", text, ANY, value=float(value))


def _dotted(tree: ast.AST) -> str | None:
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.Attribute):
        before = _dotted(tree.value)
        return None if before is None else f"{before}.{tree.attr}"
    return None


def _be_number(node: Node) -> None:
    if node.is_truth:
        raise ExpressionError(f"{node.text} is true or false: nothing can be reckoned with it")


def _be_truth(node: Node) -> None:
    if not node.is_truth:
        raise ExpressionError(f"{node.text} is a number: compare it with something")


def _same_unit(left: Node, right: Node, what: str) -> None:
    if left.unit.fits(right.unit):
        return
    hint = ""
    one = converted(left.unit) or (left.unit, 1.0)
    other = converted(right.unit) or (right.unit, 1.0)
    if one[0] == other[0]:
        hint = f"; base_unit(...) gives {one[0] if one[0].powers else 'a share'}"
    raise ExpressionError(
        f"{left.text} is in {left.unit}, {right.text} in {right.unit}: they cannot be {what}{hint}"
    )


def _one_table(*parts: Node) -> str | None:
    tables = {one.table for one in parts if one.table is not None}
    if len(tables) > 1:
        raise ExpressionError(
            f"rows of {' and '.join(sorted(tables))} do not belong together: aggregate each first"
        )
    odd = next((one for one in parts if one.table is None and not one.is_constant), None)
    if tables and odd is not None:
        raise ExpressionError(
            f"{odd.text} is one value for the job: only bare numbers stand beside a series"
        )
    return next(iter(tables), None)


def _filter(keyword: ast.keyword, table: str, text: str) -> tuple[str, str | int]:
    known = names.filters(table)
    if keyword.arg is None or keyword.arg not in known:
        near = names.nearest(keyword.arg or "", [*known])
        choice = near or f"; there are {', '.join(known) or 'none'}"
        raise ExpressionError(f"{text}: rows of {table} cannot be chosen by {keyword.arg}{choice}")
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    is_text = known[keyword.arg].type == "string"
    if isinstance(value, bool) or not isinstance(value, str if is_text else int):
        kind = "a text in quotes" if is_text else "a whole number"
        raise ExpressionError(f"{text}: {keyword.arg} must be {kind}")
    assert isinstance(value, (str, int))
    return keyword.arg, value
