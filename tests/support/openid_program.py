"""A real OpenID Connect provider: Canaille, with two people, a group and this service as a client.

Runs with the Python of an environment that has Canaille: PORT, the address of the service. Prints a line when it
listens.
"""

import sys
from datetime import UTC, datetime

from canaille import create_app
from canaille.app import models
from canaille.backends import Backend
from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

PEOPLE = {"ana": ("Ana Rossi", "ana@example.org"), "ben": ("Ben Okafor", "ben@example.org")}


def main(port: int, service: str) -> None:
    key = RSAKey.generate_key(2048, private=True, auto_kid=True).as_dict(private=True)
    app = create_app(
        {
            "SECRET_KEY": "a key of tests, which protects nothing",
            "SERVER_NAME": f"127.0.0.1:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "CANAILLE": {"DATABASE": "memory", "SMTP": None},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [key]},
        }
    )
    with app.app_context(), Backend.instance.session():
        add_people()
        add_client(service)
    server = make_server("127.0.0.1", port, app, threaded=True)
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    server.serve_forever()


def add_people() -> None:
    for user_name, (name, address) in PEOPLE.items():
        person = models.User(
            user_name=user_name,
            password=f"password of {user_name}",
            family_name=name.split()[1],
            formatted_name=name,
            emails=[address],
        )
        Backend.instance.save(person)
        if user_name == "ana":
            Backend.instance.save(models.Group(display_name="admins", members=[person]))


def add_client(service: str) -> None:
    client = models.Client(
        client_id="mosaico",
        client_secret="the secret of tests",
        client_name="MOSAICO",
        redirect_uris=[f"{service}/login/callback"],
        post_logout_redirect_uris=[f"{service}/login"],
        grant_types=["authorization_code"],
        response_types=["code"],
        scope=["openid", "profile", "email", "groups"],
        token_endpoint_auth_method="client_secret_basic",
        client_id_issued_at=datetime.now(UTC),
    )
    # Only what is stored can be an audience.
    Backend.instance.save(client)
    client.audience = [client]
    Backend.instance.save(client)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
