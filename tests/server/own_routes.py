"""Routes of a demo's own."""

from fastapi import APIRouter

router = APIRouter()


@router.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "paint"}
