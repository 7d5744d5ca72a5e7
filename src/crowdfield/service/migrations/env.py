"""Alembic runs the migrations on the connection that `database.migrate` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
