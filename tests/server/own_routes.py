"""A demo's own routes."""

from fastapi import APIRouter

router = APIRouter()


@router.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "paint"}
